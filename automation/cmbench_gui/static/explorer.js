// What pages of results have beyond links and forms: they work without it.

const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true");
document.body.append(tip);

function label(mark) {
  const title = mark.querySelector("title");
  if (title) {
    mark.dataset.label = title.textContent;
    title.remove();
  }
  return mark.dataset.label || "";
}

document.addEventListener("pointerover", (event) => {
  const mark = event.target.closest?.(".point, .strip");
  tip.hidden = !mark;
  if (mark) tip.textContent = label(mark);
});
document.addEventListener("pointermove", (event) => {
  if (tip.hidden) return;
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${event.clientY + 16}px`;
});

for (const form of document.querySelectorAll("form[data-now]")) {
  form.addEventListener("change", () => form.requestSubmit());
}

// Empty fields only make an address longer.
document.addEventListener("submit", (event) => {
  for (const field of event.target.querySelectorAll("input[name]")) {
    if (!field.value) field.disabled = true;
  }
});

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}

for (const button of document.querySelectorAll("[data-png]")) {
  button.hidden = false;
  button.addEventListener("click", () => picture(button.dataset.png));
}

function picture(address) {
  const image = new Image();
  image.addEventListener("load", () => {
    const canvas = document.createElement("canvas");
    canvas.width = 2 * image.naturalWidth;
    canvas.height = 2 * image.naturalHeight;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = "results.png";
      link.click();
      URL.revokeObjectURL(link.href);
    });
  });
  image.src = address;
}

// A rectangle that is drawn with the pointer becomes the range of the axes.
const sheet = document.querySelector(".sheet.scatter svg");
const scales = document.getElementById("scales");
if (sheet && scales) zoom(sheet, JSON.parse(scales.textContent));

function zoom(svg, { frame, x, y }) {
  const brush = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  brush.setAttribute("class", "brush");
  let start = null;
  const place = (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(
      svg.getScreenCTM().inverse(),
    );
    return {
      x: Math.min(Math.max(at.x, frame.left), frame.end),
      y: Math.min(Math.max(at.y, frame.top), frame.base),
    };
  };
  const value = (axis, share) =>
    axis.log
      ? axis.low * (axis.high / axis.low) ** share
      : axis.low + (axis.high - axis.low) * share;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType === "touch" || event.target.closest("a")) return;
    start = place(event);
    svg.append(brush);
    svg.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  svg.addEventListener("pointermove", (event) => {
    if (!start) return;
    const now = place(event);
    const told = {
      x: Math.min(start.x, now.x),
      y: Math.min(start.y, now.y),
      width: Math.abs(start.x - now.x),
      height: Math.abs(start.y - now.y),
    };
    for (const [name, size] of Object.entries(told)) brush.setAttribute(name, size);
  });
  svg.addEventListener("pointerup", (event) => {
    if (!start) return;
    const [one, other] = [start, place(event)];
    start = null;
    brush.remove();
    if (Math.abs(one.x - other.x) < 8 || Math.abs(one.y - other.y) < 8) return;
    const across = (at) => value(x, (at - frame.left) / (frame.end - frame.left));
    const up = (at) => value(y, (frame.base - at) / (frame.base - frame.top));
    const address = new URL(location.href);
    const ends = {
      xmin: across(Math.min(one.x, other.x)),
      xmax: across(Math.max(one.x, other.x)),
      ymin: up(Math.max(one.y, other.y)),
      ymax: up(Math.min(one.y, other.y)),
    };
    for (const [name, at] of Object.entries(ends)) {
      address.searchParams.set(name, String(Number(at.toPrecision(6))));
    }
    location.assign(address);
  });
}
