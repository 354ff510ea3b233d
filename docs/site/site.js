// What the theme leaves out for those who read with a screen reader.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
