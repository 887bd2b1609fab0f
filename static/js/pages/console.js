// The admin's <html> has no place for our attributes, so they come by a meta element, before the first paint.
(() => {
  const told = document.querySelector('meta[name="studio"]').dataset;
  if (told.theme) document.documentElement.dataset.theme = told.theme;
  document.documentElement.dataset.plotly = told.plotly;
})();
