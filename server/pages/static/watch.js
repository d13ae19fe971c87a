// A submission's page while it is graded: each event becomes a line; the page is loaded again when there is an answer.
"use strict";

const list = document.getElementById("stages");
const state = document.getElementById("state");
const source = new EventSource(list.dataset.events);
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
  source.addEventListener(kind, (event) => handle(JSON.parse(event.data)));
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
  on(end, () => {
    source.close();
    location.reload();
  });
}
