"""What every page of a team needs: the actor, service errors on forms, redirects that htmx follows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

from django.contrib.auth.decorators import login_required
from django.forms import BaseForm
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django_htmx.http import HttpResponseClientRedirect

from rftstudio.core.errors import NotAllowed, NotFound, StudioError
from rftstudio.teams.actor import Actor
from rftstudio.teams.selectors import actor_get


class TeamRequest(HttpRequest):
    """A request whose person may see `actor.team`."""

    actor: Actor


def team_view(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """First URL argument `team` (slug) → `request.actor`. Strangers get 404, members without the right 403."""

    @login_required
    @wraps(view)
    def inner(request: TeamRequest, team: str, *args, **kwargs) -> HttpResponse:
        try:
            request.actor = actor_get(user=request.user, slug=team)
            return view(request, *args, **kwargs)
        except NotFound as exc:
            raise Http404(exc.message) from exc
        except NotAllowed as exc:
            return render(request, "403.html", {"error": exc}, status=403)
        except StudioError as exc:
            return render(request, "error.html", {"error": exc}, status=exc.status)

    return inner


@contextmanager
def errors_on(form: BaseForm) -> Iterator[None]:
    """A StudioError inside becomes an error of the form, at the field it names."""
    try:
        yield
    except (NotFound, NotAllowed):
        raise
    except StudioError as exc:
        form.add_error(exc.where if exc.where in form.fields else None, str(exc))


def redirect_to(request: HttpRequest, url: str) -> HttpResponse:
    """Redirect after POST, for plain forms and for htmx alike."""
    return HttpResponseClientRedirect(url) if getattr(request, "htmx", False) else HttpResponseRedirect(url)
