// A run while it goes on: the server tells what is new in its log and its steps.

import { clock, tick } from "./times.js";

const job = document.getElementById("job");
const progress = document.getElementById("progress");
const steps = document.getElementById("steps");
const lines = document.getElementById("lines");
const search = document.getElementById("search");
const errors = document.getElementById("errors");
const found = document.getElementById("found");
const whole = document.getElementById("whole");
const most = Number(job.dataset.most);
const wasRunning = job.dataset.status === "running";

function fits(line) {
  const words = search.value.toLowerCase();
  return (!errors.checked || line.classList.contains("trouble"))
    && (!words || line.textContent.toLowerCase().includes(words));
}

function filter() {
  let count = 0;
  for (const line of lines.children) {
    line.hidden = !fits(line);
    if (!line.hidden) count += 1;
  }
  tell(count);
}

// Lines have their numbers in the whole log: where the first one is not 1, some are left out.
function tell(count) {
  const shown = lines.children.length;
  const all = shown ? Number(lines.lastChild.dataset.number) : 0;
  const cut = shown < all;
  const some = search.value || errors.checked;
  const last = cut ? `the last ${words(shown)} of ${words(all)} lines` : `${words(all)} lines`;
  found.textContent = some ? `${words(count)} ${cut ? "in" : "of"} ${last}` : last;
  whole.hidden = !cut;
}

function words(number) {
  return number.toLocaleString("en-US");
}

function add(told) {
  const atEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
  const more = document.createDocumentFragment();
  for (const [number, text, trouble] of told) {
    const line = document.createElement("div");
    line.dataset.number = number;
    line.textContent = text;
    if (trouble) line.classList.add("trouble");
    if (text.startsWith("== ")) line.classList.add("heading");
    line.hidden = !fits(line);
    more.append(line);
  }
  lines.append(more);
  while (lines.children.length > most) lines.firstChild.remove();
  if (atEnd) lines.scrollTop = lines.scrollHeight;
  tell([...lines.children].filter((line) => !line.hidden).length);
}

function draw({ html, status, now }) {
  clock.ahead = now - Date.now() / 1000;
  const shut = new Set([...steps.querySelectorAll("details:not([open])[data-touched]")].map((d) => d.dataset.key));
  const opened = new Set([...steps.querySelectorAll("details[open][data-touched]")].map((d) => d.dataset.key));
  const made = new DOMParser().parseFromString(html, "text/html");
  steps.replaceChildren(...made.body.childNodes);
  for (const each of steps.querySelectorAll("details")) {
    if (shut.has(each.dataset.key)) each.open = false;
    if (opened.has(each.dataset.key)) each.open = true;
    if (shut.has(each.dataset.key) || opened.has(each.dataset.key)) each.dataset.touched = "";
  }
  job.dataset.status = status;
  tick();
}

function advance({ text, share }) {
  const [bar, words] = progress.children;
  progress.hidden = !text;
  words.textContent = text;
  if (share === undefined) bar.removeAttribute("value");
  else bar.value = share;
}

steps.addEventListener("click", (event) => {
  const summary = event.target.closest("summary");
  if (summary) summary.parentElement.dataset.touched = "";
});
search.addEventListener("input", filter);
errors.addEventListener("change", filter);

const stream = new EventSource(`/jobs/${job.dataset.run}/events`);
stream.addEventListener("steps", (event) => draw(JSON.parse(event.data)));
stream.addEventListener("progress", (event) => advance(JSON.parse(event.data)));
stream.addEventListener("log", (event) => add(JSON.parse(event.data)));
stream.addEventListener("end", () => {
  stream.close();
  advance({ text: "" });
  job.dataset.ended = "";
  // The page of an ended run has its result, and other buttons.
  if (wasRunning) location.reload();
});
stream.onerror = () => { found.textContent = "the server does not answer; the run goes on without it"; };
stream.onopen = () => { if (!lines.children.length) found.textContent = ""; };
