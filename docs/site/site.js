// A flag is one word: a line breaks between the words of inline code, not at the dashes within.
for (const code of document.querySelectorAll(".md-content :not(pre) > code")) {
  const words = code.textContent.split(" ");
  if (code.childElementCount || !code.textContent.includes("-")) continue;
  code.replaceChildren(
    ...words.flatMap((word, place) => {
      const whole = document.createElement("span");
      whole.className = word.length < 40 ? "whole" : "";
      whole.textContent = word;
      return place ? [" ", whole] : [whole];
    }),
  );
}

// What the theme leaves out for those who read with a screen reader, or by keyboard alone. It adds
// buttons to code and frames to tables later than this.
function complete() {
  document.querySelectorAll("nav.md-nav, nav.md-code__nav").forEach((part, place) => {
    if (part.dataset.named) return;
    part.dataset.named = "yes";
    const title = document.getElementById(part.getAttribute("aria-labelledby") || "");
    const name = part.getAttribute("aria-label") || title?.textContent.trim() || "Code";
    part.removeAttribute("aria-labelledby");
    part.setAttribute("aria-label", `${name} (${place + 1})`);
  });
  for (const part of document.querySelectorAll(".md-typeset__scrollwrap, pre > code")) {
    if (part.scrollWidth > part.clientWidth && !part.hasAttribute("tabindex")) part.tabIndex = 0;
  }
}
complete();
new MutationObserver(complete).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", complete);
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
