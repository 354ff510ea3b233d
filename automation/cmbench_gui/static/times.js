// Times of the server in the reader's own words: the local clock, and how long something runs.

export function took(seconds) {
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.round(seconds) % 60).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

export const clock = { ahead: 0 };

export function tick() {
  const now = Date.now() / 1000 + clock.ahead;
  for (const place of document.querySelectorAll("[data-since]")) {
    place.textContent = took(now - Number(place.dataset.since));
  }
}

for (const place of document.querySelectorAll("time[datetime]")) {
  const at = new Date(place.dateTime);
  const two = (number) => String(number).padStart(2, "0");
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
  place.title = at.toString();
  place.textContent = `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}
tick();
setInterval(tick, 1000);
