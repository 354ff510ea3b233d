// The form tells the server what is chosen; the server answers with the command, the plan and what
// cannot be combined. No rule about scripts is in here.

const root = document.getElementById("compose");
const form = document.getElementById("choices");
const shown = document.getElementById("command");
const plan = document.getElementById("plan");
const said = document.getElementById("said");
const runCommand = document.getElementById("run-command");
const tabs = [...root.querySelectorAll("[data-form]")];
const base = root.dataset.base;
let forms = JSON.parse(document.getElementById("forms").textContent);
let written = "bash";
let query = location.search.slice(1);
let asking = new AbortController();

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

function chosen() {
  const pairs = [...new FormData(form)].filter(([, value]) => value !== "");
  return new URLSearchParams(pairs).toString();
}

async function ask(path, signal) {
  const answer = await fetch(path, { headers: { accept: "application/json" }, signal });
  const told = await answer.json();
  if (!answer.ok) throw Error([told.error, told.hint].filter(Boolean).join(". "));
  return told;
}

function show() {
  shown.textContent = forms[written];
  for (const tab of tabs) tab.setAttribute("aria-pressed", String(tab.dataset.form === written));
  if (runCommand) runCommand.value = forms.bash;
}

function tell(problems) {
  for (const place of form.querySelectorAll("[data-problem]")) {
    const text = problems[place.dataset.problem] ?? "";
    place.textContent = text;
    place.closest(".field").querySelector("input, select, textarea")
      .toggleAttribute("aria-invalid", Boolean(text));
  }
  for (const field of form.querySelectorAll(".field")) {
    const control = field.querySelector("input, select, textarea");
    field.classList.toggle("chosen", control.type === "checkbox" ? control.checked : control.value !== "");
  }
}

async function command(signal) {
  const unknown = document.getElementById("unknown");
  try {
    const told = await ask(`${base}/command?${chosen()}`, signal);
    forms = told.forms;
    query = told.query;
    history.replaceState(null, "", told.link);
    unknown.textContent = told.unknown.length ? `there is no variation ${told.unknown.join(", ")}` : "";
    tell(told.problems);
    show();
    return true;
  } catch (problem) {
    if (signal.aborted) return false;
    unknown.textContent = problem.message;
    return false;
  }
}

async function plans(signal) {
  plan.setAttribute("aria-busy", "true");
  const answer = await fetch(`${base}/plan?${query}`, { signal });
  const text = await answer.text();
  const made = new DOMParser().parseFromString(text, "text/html");
  plan.replaceChildren(...made.body.childNodes);
  plan.setAttribute("aria-busy", "false");
}

// A value that the planner refuses is disabled, with its reason; the one that is set never is.
async function refusals(signal) {
  for (const field of form.querySelectorAll("[data-asked]")) {
    const label = encodeURIComponent(field.dataset.asked);
    const told = await ask(`${base}/check?field=${label}&${query}`, signal);
    const options = [...field.querySelectorAll("option")].filter((option) => option.value);
    for (const option of options) {
      const reason = told.refused[option.value];
      option.disabled = Boolean(reason) && !option.selected;
      option.title = reason ?? "";
      option.textContent = reason ? `${option.value} (${shortened(reason)})` : option.value;
    }
    const box = field.querySelector("[type=checkbox]");
    if (box) {
      const reason = told.refused[box.value];
      box.disabled = Boolean(reason) && !box.checked;
      field.title = reason ?? "";
    }
    list(field, told.refused);
  }
}

function list(field, refused) {
  let place = field.querySelector(".reasons");
  const reasons = Object.entries(refused);
  if (!place && reasons.length) {
    place = document.createElement("details");
    place.className = "reasons";
    field.append(place);
  }
  if (!place) return;
  place.hidden = !reasons.length;
  const head = document.createElement("summary");
  head.textContent = `${reasons.length} cannot be combined with the rest`;
  const items = document.createElement("ul");
  for (const [value, reason] of reasons) {
    const item = document.createElement("li");
    item.textContent = `${value}: ${reason}`;
    items.append(item);
  }
  place.replaceChildren(head, items);
}

const shortened = (text) => (text.length > 60 ? `${text.slice(0, 58)}…` : text);

async function changed(wait) {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  try {
    await pause(wait);
    if (signal.aborted || !(await command(signal))) return;
    await pause(wait * 2);
    if (signal.aborted) return;
    await plans(signal);
    await refusals(signal);
    form.dataset.settled = query;
  } catch (problem) {
    if (!signal.aborted) {
      plan.setAttribute("aria-busy", "false");
      plan.querySelector("p").textContent = `No plan: ${problem.message}`;
    }
  }
}

async function copy(text, name) {
  try {
    await navigator.clipboard.writeText(text);
    said.textContent = `${name} copied`;
  } catch {
    getSelection().selectAllChildren(shown);
    said.textContent = "press Ctrl+C to copy what is marked";
  }
  await pause(3000);
  said.textContent = "";
}

form.addEventListener("input", () => changed(120));
form.addEventListener("submit", (event) => { event.preventDefault(); changed(0); });
for (const tab of tabs) tab.addEventListener("click", () => { written = tab.dataset.form; show(); });
document.getElementById("copy").addEventListener("click", () => copy(shown.textContent, "Command"));
document.getElementById("copy-link").addEventListener("click", () => copy(location.href, "Link"));
query = chosen();
changed(0);
