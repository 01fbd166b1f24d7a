// Before anything is painted: the theme that was chosen here, if one was.
(() => {
  const chosen = localStorage.getItem("fencepost-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
