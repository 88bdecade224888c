// A seat map: it shows the free seats of the campaign hall, lets a visitor choose some, and claims them, all or none.

const rows = ["A", "B", "C", "D"];
const seatsOfRow = 8;
const mostSeats = 4;
const refreshEvery = 5000; // milliseconds
const longestWait = 30; // seconds between two tries

const api = "/campaigns/hall";
const status = document.getElementById("status");
const claimButton = document.getElementById("claim");

let free = new Set();
let mine = []; // the visitor's seats, once they are claimed
let busy = false; // a claim is under way
const chosen = new Set();
const buttons = new Map(); // by seat

// The visitor's name. This API is open: each browser is a visitor. Behind a login the server knows the visitor.
const visitor = localStorage.getItem("visitor") ?? crypto.randomUUID();
localStorage.setItem("visitor", visitor);

function build() {
  for (const row of rows) {
    const fieldset = document.createElement("fieldset");
    const legend = document.createElement("legend");
    fieldset.className = "row";
    legend.textContent = `Row ${row}`;
    fieldset.append(legend);
    for (let number = 1; number <= seatsOfRow; number++) {
      const seat = row + number;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = number;
      button.addEventListener("click", () => choose(seat));
      buttons.set(seat, button);
      fieldset.append(button);
    }
    document.getElementById("hall").append(fieldset);
  }
  claimButton.addEventListener("click", claim);
}

// draw shows the state. A taken seat stays a button, so that the keyboard focus stays in its place.
function draw() {
  for (const [seat, button] of buttons) {
    const state = mine.includes(seat) ? "yours" : free.has(seat) ? "free" : "taken";
    button.setAttribute("aria-label", `Row ${seat[0]}, seat ${seat.slice(1)}, ${state}`);
    button.setAttribute("aria-pressed", chosen.has(seat) || mine.includes(seat));
    button.setAttribute("aria-disabled", busy || mine.length > 0 || state === "taken");
  }
  claimButton.hidden = mine.length > 0;
  claimButton.setAttribute("aria-disabled", busy || chosen.size === 0);
  claimButton.textContent = chosen.size > 0 ? `Take ${[...chosen].sort().join(", ")}` : "Take the seats";
}

// say tells the visitor something. A screen reader reads it aloud.
function say(text) {
  status.textContent = text;
}

function choose(seat) {
  if (busy || mine.length > 0 || !free.has(seat)) {
    return;
  }
  if (!chosen.delete(seat)) {
    if (chosen.size === mostSeats) {
      return say(`You can take ${mostSeats} seats. Give one back first.`);
    }
    chosen.add(seat);
  }
  say(chosen.size > 0 ? `You have chosen ${[...chosen].sort().join(", ")}.` : "Choose your seats.");
  draw();
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// call returns whether a request succeeded, and the body of the answer. It repeats a request that may succeed later,
// with longer and longer pauses. Repeating a claim is safe.
async function call(path, options) {
  for (let wait = 1; ; wait = Math.min(2 * wait, longestWait)) {
    const answer = await fetch(api + path, options).catch(() => undefined); // no connection
    if (answer && answer.status < 500 && answer.status !== 429) {
      if (wait > 1) {
        say("");
      }
      return { ok: answer.ok, body: await answer.json() };
    }
    say("Many people are here right now. This page tries again by itself.");
    const seconds = Math.max(wait, answer?.headers.get("Retry-After") ?? 0);
    await pause(seconds * (1 + Math.random()) * 1000);
  }
}

// refresh reads the free seats: all pages of the list.
async function refresh() {
  const listed = new Set();
  let cursor = "";
  do {
    const { ok, body } = await call(`/items?cursor=${encodeURIComponent(cursor)}`, { cache: "no-cache" });
    if (!ok) {
      return say(body.detail);
    }
    body.items.forEach(({ item }) => listed.add(item));
    cursor = body.next;
  } while (cursor);
  free = listed;
  const lost = [...chosen].filter((seat) => !busy && !free.has(seat));
  lost.forEach((seat) => chosen.delete(seat));
  if (lost.length > 0) {
    say(`${lost.sort().join(", ")}: somebody else was quicker. Choose again.`);
  }
  draw();
}

async function claim() {
  if (busy || chosen.size === 0) {
    return;
  }
  busy = true;
  draw();
  const { ok, body } = await call("/claims", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ claimant: visitor, items: [...chosen] }),
  });
  busy = false;
  if (ok) {
    return own(body);
  }
  say(body.detail);
  await refresh(); // after item-taken it says which seats are gone
}

// own shows the seats of a claim: a list if there are several. A button that goes gives the focus to the text.
function own(claimed) {
  mine = (claimed.items ?? [claimed]).map(({ item }) => item).sort();
  chosen.clear();
  mine.forEach((seat) => free.delete(seat));
  say(`${mine.join(", ")}: taken for you.`);
  if (document.activeElement === claimButton) {
    status.focus();
  }
  draw();
}

build();
draw();
const held = await call(`/claims/${visitor}`);
await refresh();
if (held.ok) {
  own(held.body);
}
for (;;) {
  await pause(refreshEvery);
  await refresh();
}
