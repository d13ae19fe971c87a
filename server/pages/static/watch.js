// A submission's page while it is graded: each event becomes a line; the page is loaded again when there is an answer.
"use strict";

const list = document.getElementById("stages");
const state = document.getElementById("state");
const againMs = 15000;
const handlers = {};
let stage = null;

function line(text, now) {
  const item = document.createElement("li");
  item.textContent = text;
  if (now) item.className = "now";
  list.append(item);
  return item;
}

function took(item, seconds) {
  const shown = document.createElement("span");
  shown.className = "took";
  shown.textContent = `${seconds.toFixed(2)} s`;
  item.append(shown);
}

function on(kind, handle) {
  handlers[kind] = handle;
}

// A browser takes up by itself what breaks off or ends, but not what is refused: that has to begin anew.
function watch() {
  const source = new EventSource(list.dataset.events);
  for (const [kind, handle] of Object.entries(handlers)) {
    source.addEventListener(kind, (event) => handle(JSON.parse(event.data), source));
  }
  source.addEventListener("error", () => {
    if (source.readyState !== EventSource.CLOSED) return;
    list.replaceChildren();
    stage = null;
    line("The server can't tell more just now, as it may when too many pages are watched; trying again every 15 seconds.");
    setTimeout(() => {
      list.replaceChildren();
      watch();
    }, againMs);
  });
}

on("queued", () => line("queued"));
on("claimed", (data) => {
  state.textContent = "at work";
  document.getElementById("waits")?.remove();
  line(`taken, on ${data.device}`);
});
on("stage_started", (data) => {
  stage = line(data.stage, true);
});
on("progress", (data) => {
  if (stage) stage.textContent = `${data.stage}: ${data.message}`;
});
on("stage_ended", (data) => {
  if (!stage) return;
  stage.textContent = data.stage;
  stage.className = "";
  took(stage, data.seconds || 0);
  stage = null;
});
on("requeued", () => {
  state.textContent = "queued again";
  if (stage) stage.className = "";
  stage = null;
  line("the agent went away: queued again");
});
for (const end of ["done", "cancelled"]) {
  on(end, (_, source) => {
    source.close();
    location.reload();
  });
}
watch();
