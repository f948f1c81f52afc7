// Runs before the first paint, so that a dark page never flashes light.
(function () {
  var chosen = null;
  try {
    chosen = localStorage.getItem("ratchet.theme");
  } catch (error) {
    // Storage is blocked: the system's theme is used.
  }
  var dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
