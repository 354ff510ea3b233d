// What the theme leaves out for those who read with a keyboard or a screen reader.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
for (const code of document.querySelectorAll("pre > code")) {
  if (code.scrollWidth > code.clientWidth) code.tabIndex = 0;
}
