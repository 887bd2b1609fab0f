"""Icons and status glyphs as SVG text. An icon is a line drawing, a glyph a state: shape, so that colour never stands alone."""

ICONS: dict[str, str] = {
    "home": '<path d="M2.5 7.3 8 2.7l5.5 4.6V13a.5.5 0 0 1-.5.5H9.8V9.7H6.2v3.8H3a.5.5 0 0 1-.5-.5z"/>',
    "dataset": '<path d="M3 4c0-1.1 2.2-2 5-2s5 .9 5 2v8c0 1.1-2.2 2-5 2s-5-.9-5-2z"/>'
    '<path d="M3 4c0 1.1 2.2 2 5 2s5-.9 5-2M3 8c0 1.1 2.2 2 5 2s5-.9 5-2"/>',
    "grader": '<path d="M8 2.5v11M5 13.5h6M3 5h10M3.2 5 1.6 9.2h3.2zM12.8 5l-1.6 4.2h3.2z"/>',
    "agent": '<path d="M3 5.5h10V13H3zM8 2.5v3M6.2 8.6v1.2M9.8 8.6v1.2M1.5 8v2.5M14.5 8v2.5"/>',
    "baseline": '<circle cx="8" cy="8" r="5.5"/><circle cx="8" cy="8" r="2"/>',
    "job": '<path d="M2 12.5 6 8l3 2.5 5-6M10.6 4.2H14v3.4"/>',
    "rollout": '<path d="M2.5 3.5h.01M2.5 8h.01M2.5 12.5h.01M5.5 3.5h8M5.5 8h8M5.5 12.5h8"/>',
    "label": '<path d="M2.5 8.2V2.5h5.7l5.3 5.3-5.7 5.7zM5.4 5.4h.01"/>',
    "cost": '<circle cx="8" cy="8" r="5.7"/><path d="M9.9 6.3c0-.9-.8-1.4-1.9-1.4s-1.9.5-1.9 1.4c0 2 3.9 1.2 3.9 3.3 0 .9-.9'
    ' 1.5-2 1.5s-2-.6-2-1.5M8 3.9v1M8 11.1v1"/>',
    "members": '<circle cx="6" cy="5.5" r="2.3"/><path d="M1.8 13c0-2.2 1.9-3.7 4.2-3.7s4.2 1.5 4.2 3.7M10.8 3.4a2.3 2.3 0 0 1 0'
    ' 4.2M12 9.6c1.4.6 2.2 1.8 2.2 3.4"/>',
    "key": '<circle cx="5.2" cy="10.8" r="2.7"/><path d="M7.2 8.8 13 3M11 5l1.8 1.8"/>',
    "help": '<circle cx="8" cy="8" r="5.7"/><path d="M6.3 6.4c0-1 .8-1.6 1.7-1.6s1.7.6 1.7 1.5c0 1.2-1.7 1.3-1.7 2.5M8 11h.01"/>',
    "search": '<circle cx="7" cy="7" r="4.2"/><path d="m10.2 10.2 3.3 3.3"/>',
    "book": '<path d="M8 4.2C7 3.3 5 3 2.5 3v9.3c2.5 0 4.5.3 5.5 1.2 1-.9 3-1.2 5.5-1.2V3C11 3 9 3.3 8 4.2zM8 4.2v9.3"/>',
    "calculator": '<path d="M4 2h8v12H4zM6 4.5h4M6 8h.01M8 8h.01M10 8h.01M6 11h.01M8 11h.01M10 11h.01"/>',
    "table": '<path d="M2.5 3h11v10h-11zM2.5 6.3h11M2.5 9.7h11M6.5 6.3V13"/>',
    "globe": '<circle cx="8" cy="8" r="5.7"/><path d="M2.3 8h11.4M8 2.3c4 3.8 4 7.6 0 11.4M8 2.3c-4 3.8-4 7.6 0 11.4"/>',
    "tool": '<path d="M9.8 6.2 3.2 12.8M13.3 4.6a3.3 3.3 0 0 1-4.5 3.6A3.3 3.3 0 0 1 11.4 2.7L9.8 4.3l.4 1.5 1.5.4z"/>',
    "code": '<path d="M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5"/>',
    "message": '<path d="M2.5 3h11v8H7.2L4 13.6V11H2.5z"/>',
    "document": '<path d="M4 2h5l3 3v9H4zM9 2v3h3M6 8.5h4M6 11h4"/>',
    "person": '<circle cx="8" cy="5.3" r="2.6"/><path d="M3 13.5c0-2.6 2.2-4.3 5-4.3s5 1.7 5 4.3"/>',
    "server": '<path d="M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01"/>',
    "cloud": '<path d="M4.6 12.5a2.9 2.9 0 0 1-.3-5.8 3.9 3.9 0 0 1 7.5.9 2.5 2.5 0 0 1-.3 4.9z"/>',
    "flask": '<path d="M6 2.5h4M6.8 2.5v4l-3.6 5.9c-.3.6.1 1.1.7 1.1h8.2c.6 0 1-.5.7-1.1L9.2 6.5v-4M5 10h6"/>',
    "upload": '<path d="M8 10.5V3M4.8 6 8 2.8 11.2 6M3 13.5h10"/>',
    "download": '<path d="M8 2.5V10M4.8 7 8 10.2 11.2 7M3 13.5h10"/>',
    "grip": '<path d="M6 4h.01M6 8h.01M6 12h.01M10 4h.01M10 8h.01M10 12h.01"/>',
    "plus": '<path d="M8 3v10M3 8h10"/>',
    "minus": '<path d="M3 8h10"/>',
    "equal": '<path d="M4 6.3h8M4 9.7h8"/>',
    "check": '<path d="m3.5 8.5 3 3 6-7"/>',
    "close": '<path d="m4 4 8 8M12 4l-8 8"/>',
    "chevron-right": '<path d="M6 3.5 10.5 8 6 12.5"/>',
    "chevron-left": '<path d="M10 3.5 5.5 8l4.5 4.5"/>',
    "chevron-down": '<path d="M3.5 6 8 10.5 12.5 6"/>',
    "more": '<path d="M3.5 8h.01M8 8h.01M12.5 8h.01" stroke-width="2.4"/>',
    "menu": '<path d="M2.5 4h11M2.5 8h11M2.5 12h11"/>',
    "pause": '<path d="M5.5 3.5v9M10.5 3.5v9"/>',
    "play": '<path d="M5 3.2v9.6L12.5 8z"/>',
    "stop": '<rect x="4" y="4" width="8" height="8" rx="1"/>',
    "lock": '<path d="M3.5 7h9v6.5h-9zM5.5 7V5a2.5 2.5 0 0 1 5 0v2"/>',
    "link": '<path d="M6.8 9.2a2.4 2.4 0 0 0 3.4 0l2.4-2.4a2.4 2.4 0 0 0-3.4-3.4l-.8.8M9.2 6.8a2.4 2.4 0 0 0-3.4 0L3.4'
    ' 9.2a2.4 2.4 0 0 0 3.4 3.4l.8-.8"/>',
    "copy": '<path d="M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3"/>',
    "flag": '<path d="M4 14V2.5M4 3h8.5l-2 2.8 2 2.8H4"/>',
    "hidden": '<path d="m2.5 2.5 11 11M6.4 3.6A6.6 6.6 0 0 1 8 3.4C11.8 3.4 14 8 14 8a10 10 0 0 1-1.7 2.3M9.7 9.8a2.4 2.4 0 0'
    ' 1-3.4-3.5M4.3 4.9A10 10 0 0 0 2 8s2.2 4.6 6 4.6c1 0 1.9-.3 2.6-.7"/>',
    "part": '<path d="M8 14V9.5C8 6.5 4 7 4 3M8 9.5C8 6.5 12 7 12 3M2.4 4.6 4 3l1.6 1.6M10.4 4.6 12 3l1.6 1.6"/>',
    "swap": '<path d="M3 5.5h9M9.5 3 12 5.5 9.5 8M13 10.5H4M6.5 8 4 10.5 6.5 13"/>',
    "edit": '<path d="M3 13v-2.5L10.5 3 13 5.5 5.5 13zM9 4.5 11.5 7"/>',
    "trash": '<path d="M3 4.5h10M6 4.5v-2h4v2M4.5 4.5 5.2 13.5h5.6l.7-9"/>',
    "refresh": '<path d="M13 8a5 5 0 1 1-1.6-3.7M13 2.5V5h-2.5"/>',
    "clock": '<circle cx="8" cy="8" r="5.7"/><path d="M8 4.8V8l2.2 1.6"/>',
    "filter": '<path d="M2.5 3h11L9.5 8v4.5l-3 1V8z"/>',
    "theme": '<circle cx="8" cy="8" r="5.7"/><path d="M8 2.3v11.4a5.7 5.7 0 0 0 0-11.4z" fill="currentColor"/>',
    "exit": '<path d="M6.5 2.5h-4v11h4M6.5 8h7M10.7 5l2.8 3-2.8 3"/>',
    "compare": '<path d="M3 3h4v10H3zM9 3h4v10H9z"/>',
    "bookmark": '<path d="M4.5 2.5h7v11L8 10.8l-3.5 2.7z"/>',
    "gear": '<circle cx="8" cy="8" r="2.2"/><path d="M8 2v2M8 12v2M2 8h2M12 8h2M3.8 3.8l1.4 1.4M10.8 10.8l1.4 1.4M12.2'
    ' 3.8l-1.4 1.4M5.2 10.8l-1.4 1.4"/>',
}

_DISC = '<circle class="fill" cx="8" cy="8" r="6.5"/>'
_RING = '<circle class="open" cx="8" cy="8" r="5.7"/>'

GLYPHS: dict[str, str] = {
    "done": _DISC + '<path class="cut" d="m5.2 8.2 2 2 3.7-4.2"/>',
    "running": '<circle class="open" cx="8" cy="8" r="5.7" opacity=".3"/>'
    '<path class="open turn" d="M8 2.3A5.7 5.7 0 1 1 2.6 9.9" stroke-width="2.2"/>',
    "queued": '<circle class="open" cx="8" cy="8" r="5.7" stroke-dasharray="1 3.5"/>',
    "paused": _DISC + '<path class="cut" d="M6.2 5.6v4.8M9.8 5.6v4.8"/>',
    "warning": '<path class="fill" d="M8 1.6c.4 0 .8.2 1 .6l5.7 10.2c.4.8-.1 1.7-1 1.7H2.3c-.9 0-1.4-.9-1-1.7L7 2.2c.2-.4.6-.6'
    ' 1-.6z"/><path class="cut" d="M8 6.2v3.2M8 11.8v.01"/>',
    "failed": '<path class="fill" d="M5.3 1.5h5.4l3.8 3.8v5.4l-3.8 3.8H5.3l-3.8-3.8V5.3z"/>'
    '<path class="cut" d="m5.8 5.8 4.4 4.4M10.2 5.8l-4.4 4.4"/>',
    "cancelled": _RING + '<rect class="fill" x="5.4" y="5.4" width="5.2" height="5.2" rx=".8"/>',
    "draft": '<rect class="open" x="2.8" y="2.8" width="10.4" height="10.4" rx="2" stroke-dasharray="2.6 2.6"/>',
    "half": _RING + '<path class="fill" d="M8 2.3a5.7 5.7 0 0 1 0 11.4z"/>',
    "ungraded": '<circle class="open" cx="8" cy="8" r="5.7" stroke-dasharray="2.6 1.9"/><path class="open" d="m5 11 6-6"/>',
    "todo": _RING,
    "info": _DISC + '<path class="cut" d="M8 7.5v3.2M8 5v.01"/>',
}
