// Starts Swagger UI. Whoever is logged in asks as themselves: the team goes along as a header, with the CSRF token.
(() => {
  const place = document.getElementById("docs");
  const team = document.getElementById("team");
  const wanted = document.documentElement.dataset.theme;
  const dark = wanted ? wanted === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.classList.toggle("dark-mode", dark);
  window.SwaggerUIBundle({
    url: place.dataset.schema,
    domNode: place,
    deepLinking: true,
    docExpansion: "none",
    defaultModelsExpandDepth: -1,
    validatorUrl: null,
    persistAuthorization: false,
    requestInterceptor(request) {
      if (team && team.value && !request.headers.Authorization) {
        request.headers["X-Team"] = team.value;
        request.headers["X-CSRFToken"] = place.dataset.token;
      }
      return request;
    },
  });
})();
