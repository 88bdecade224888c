// A ticket shop: it shows the seats of the shop's own file, lets a visitor choose some, holds them, all or none, and sends
// the visitor to pay. Seats that the campaign does not list as free are taken.

const mostSeats = 4;
const refreshEvery = 5000; // milliseconds
const longestWait = 30; // seconds between two tries
const lastMinute = 60_000; // milliseconds
const api = "/campaigns/hall";

const status = document.getElementById("status");
const order = document.getElementById("order");
const left = document.getElementById("left");
const holdButton = document.getElementById("hold");
const payButton = document.getElementById("pay");
const backButton = document.getElementById("back");

const seats = new Map(); // by name: row, number, cents and button
const chosen = new Set();
let free = new Set();
let soldOut = false; // as the visitor knows it
let lost = new Set(); // that somebody else took a moment before the visitor
let claim; // of the visitor: a hold, or tickets if it does not end
let ends = 0; // when the hold ends, by the visitor's clock
let warned; // the end of the hold about whose last minute the visitor knows
let busy = false; // a request of the visitor is under way

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const euros = (cents) => `${(cents / 100).toFixed(2)} €`;
const priceOf = (name) => seats.get(name)?.cents ?? 0; // a seat of an earlier file has none, and cannot be paid
const nameOf = (seat) => (seats.has(seat) ? `Row ${seats.get(seat).row}, seat ${seats.get(seat).number}` : seat);
const sorted = (names) => [...names].sort(new Intl.Collator("en", { numeric: true }).compare); // A2 before A10
const paymentOf = () => new URLSearchParams(location.search).get("payment");
const heldSeats = () => (claim ? (claim.items ?? [claim]).map(({ item }) => item) : []);

// say tells the visitor something. A screen reader reads it aloud, unless it is what it said before.
function say(heading, text = "", tone = "") {
  const [title, paragraph] = status.children;
  status.dataset.tone = tone;
  for (const [element, words] of [[title, heading], [paragraph, text]]) {
    if (element.textContent !== words) {
      element.textContent = words;
    }
  }
}

// call returns the answer to a request, and by how much the server's clock is at most ahead: its header has whole seconds,
// and it was read after the request began. So the visitor never sees more time than there is. call repeats a request that
// may succeed later, with longer and longer pauses. Repeating a claim or a release is safe.
async function call(path, options) {
  for (let wait = 1; ; wait = Math.min(2 * wait, longestWait)) {
    const began = Date.now();
    const answer = await fetch(path, options).catch(() => undefined); // no connection
    if (answer && answer.status < 500 && answer.status !== 429) {
      if (wait > 1) {
        say("We are connected again");
      }
      const ahead = Date.parse(answer.headers.get("Date")) + 1000 - began || 0;
      const body = answer.headers.get("Content-Type")?.includes("json") ? await answer.json() : await answer.text();
      return { ok: answer.ok, body, ahead };
    }
    if ([429, 503].includes(answer?.status)) {
      say("Many people are here right now", "This page tries again by itself.", "warn");
    } else {
      say("We cannot be reached right now", "This page tries again by itself.", "bad");
    }
    const seconds = Math.max(wait, answer?.headers.get("Retry-After") ?? 0);
    await pause(seconds * (1 + Math.random() / 2) * 1000);
  }
}

// build draws the hall from the shop's file.
async function build() {
  const { body } = await call("/seats.json");
  const hall = document.getElementById("hall");
  const rows = Map.groupBy(body, ({ row }) => row);
  let before;
  for (const [row, places] of rows) {
    const costs = places.map(({ cents }) => cents);
    const price = [...new Set([Math.min(...costs), Math.max(...costs)])].map(euros).join(" to ");
    if (price !== before) {
      before = price;
      const title = document.createElement("p");
      title.className = "price";
      title.textContent = `${price} a seat`;
      hall.append(title);
    }
    const group = document.createElement("div");
    group.className = "row";
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", `Row ${row}, ${price}`);
    const letter = document.createElement("span");
    letter.textContent = row;
    letter.setAttribute("aria-hidden", "true");
    group.append(letter, ...places.map(place));
    group.children[Math.ceil((places.length + 2) / 2)]?.classList.add("aisle"); // in the middle
    hall.append(group);
  }
  hall.style.setProperty("--seats", Math.max(...[...rows.values()].map(({ length }) => length)));
  hall.scrollLeft = (hall.scrollWidth - hall.clientWidth) / 2; // short rows are in the middle
}

// place makes the button of a seat.
function place({ seat: name, row, number, cents }) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "seat";
  button.addEventListener("click", () => choose(name));
  seats.set(name, { row, number, cents, button });
  return button;
}

function stateOf(name) {
  return heldSeats().includes(name) ? "yours" : chosen.has(name) ? "chosen" : free.has(name) ? "free" : lost.has(name) ? "lost" : "taken";
}

const marks = { yours: "✓", chosen: "✓", taken: "×", lost: "!" };
const words = { yours: "yours", chosen: "free", free: "free", taken: "taken", lost: "taken by somebody else before you" };

// draw shows everything. A taken seat stays a button, so that the keyboard focus stays in its place.
function draw() {
  for (const [name, { number, cents, button }] of seats) {
    const state = stateOf(name);
    button.dataset.state = state;
    button.textContent = marks[state] ?? number;
    button.setAttribute("aria-label", `${nameOf(name)}, ${euros(cents)}, ${words[state]}`);
    button.setAttribute("aria-pressed", state === "chosen" || state === "yours");
    button.setAttribute("aria-disabled", Boolean(claim) || !free.has(name));
  }
  drawOrder();
}

// drawOrder shows what the visitor has chosen, holds or has bought. A button that had the focus and has gone gives it to
// the text.
function drawOrder() {
  const names = sorted(claim ? heldSeats() : chosen);
  const holding = Boolean(claim?.ends_at);
  const total = names.reduce((sum, name) => sum + priceOf(name), 0);
  const hadFocus = [holdButton, payButton, backButton].includes(document.activeElement);
  order.querySelector("h2").textContent = holding ? "Reserved for you" : claim ? "Your tickets" : "Your choice";
  order.querySelector("tbody").replaceChildren(...names.map((name) => {
    const line = document.createElement("tr");
    line.innerHTML = '<th scope="row"></th><td></td>';
    line.children[0].textContent = nameOf(name);
    line.children[1].textContent = euros(priceOf(name));
    return line;
  }));
  order.querySelector("tfoot td").textContent = euros(total);
  holdButton.hidden = Boolean(claim);
  holdButton.disabled = chosen.size === 0;
  holdButton.textContent = chosen.size === 0 ? "Choose a seat first" : `Reserve ${sorted(chosen).join(", ")}`;
  payButton.hidden = backButton.hidden = !holding;
  payButton.textContent = `Pay ${euros(total)}`;
  const above = claim ? status : document.querySelector(".legend"); // what there is to do comes first
  if (above.nextElementSibling !== order) {
    above.after(order);
  }
  countDown();
  if (hadFocus && (document.activeElement === document.body || document.activeElement.hidden)) {
    status.focus();
  }
}

// countDown shows the time that is left, once a second. No screen reader reads each second: it hears the last minute.
function countDown() {
  const seconds = Math.max(0, Math.ceil((ends - Date.now()) / 1000));
  const holding = Boolean(claim?.ends_at);
  left.hidden = !holding;
  left.textContent = `Time left to pay: ${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  payButton.disabled = seconds === 0;
  if (holding && seconds > 0 && seconds <= 60 && warned !== claim.ends_at) {
    warned = claim.ends_at;
    say("One minute left", "After that the seats go back.", "warn");
  }
  if (holding && seconds === 0) {
    say("Your time is over", "If you have paid, this page shows your tickets in a moment.", "warn");
  }
}

function choose(name) {
  if (claim || busy || !free.has(name)) {
    return;
  }
  lost.clear();
  if (!chosen.delete(name)) {
    if (chosen.size === mostSeats) {
      return say(`You can take ${mostSeats} seats`, "Click on one of yours to give it up.", "warn");
    }
    chosen.add(name);
  }
  say(chosen.size > 0 ? `You have chosen ${sorted(chosen).join(", ")}` : "Choose your seats");
  draw();
}

// refresh reads the free seats, all pages of the list, and the visitor's claim and payment.
async function refresh() {
  const listed = new Set();
  let cursor = "";
  do {
    const { ok, body } = await call(`${api}/items?limit=500&cursor=${encodeURIComponent(cursor)}`, { cache: "no-cache" });
    if (!ok) {
      return say("Something went wrong", body.detail, "bad");
    }
    body.items.forEach(({ item }) => listed.add(item));
    cursor = body.next;
  } while (cursor);
  free = listed;
  if (claim?.ends_at || paymentOf()) {
    await readClaim();
  }
  dropLost();
  tellSoldOut();
  draw();
}

// dropLost takes seats out of the choice that somebody else has now, and marks them.
function dropLost() {
  const gone = sorted(chosen).filter((name) => !busy && !free.has(name));
  if (gone.length === 0) {
    return;
  }
  gone.forEach((name) => chosen.delete(name));
  lost = new Set(gone);
  say(`${gone.join(", ")}: somebody was faster`, chosen.size > 0 ? "Your other seats are still free. Choose again, or reserve them." : "Choose again.", "bad");
}

// tellSoldOut says that no seat is free, and when some are free again.
function tellSoldOut() {
  const none = ![...seats.keys()].some((name) => free.has(name));
  if (none === soldOut || claim || paymentOf() || chosen.size > 0) {
    return;
  }
  soldOut = none;
  if (soldOut) {
    say("All seats are taken", "A seat that is given back appears here by itself.", "warn");
  } else {
    say("Seats are free again", "Choose your seats.");
  }
}

// readClaim asks what the visitor has: a hold, tickets, or nothing any more.
async function readClaim() {
  const before = claim;
  const answer = await call(`${api}/claims/me`);
  if (busy || claim !== before) {
    return; // the visitor has done something meanwhile: the answer may be older
  }
  own(answer);
  if (claim && !claim.ends_at) {
    say("Paid: these are your tickets", sorted(heldSeats()).join(", "), "good");
  } else if (paymentOf()) {
    await readPayment();
  } else if (before && !claim) {
    say("Your time is over", "The seats went back. Choose again.", "warn");
  }
}

async function readPayment() {
  const { ok, body } = await call(`/payments/${encodeURIComponent(paymentOf())}`);
  // The id of a claim that replaces another one begins with the other's id and a full stop.
  if (!ok || claim && body.claim_id !== claim.claim_id.split(".")[0]) {
    return;
  }
  if (body.status === "refunded") {
    say("You get your money back", "Your payment came too late, or the shop took the seats back. Choose again.", "bad");
  } else if (claim) {
    say("We are waiting for your payment", "This page shows your tickets as soon as it is there.", "warn");
  } else {
    say("Your time is over", "The seats went back. A payment that still comes is paid back.", "warn");
  }
}

// own takes over the claim of an answer.
function own({ ok, body, ahead }) {
  claim = ok ? body : undefined;
  ends = claim?.ends_at ? Date.parse(claim.ends_at) - ahead : 0;
  if (claim) {
    chosen.clear();
    heldSeats().forEach((name) => free.delete(name));
  }
}

// asVisitor does one thing for the visitor at a time.
async function asVisitor(work) {
  if (busy) {
    return;
  }
  busy = true;
  try {
    await work();
  } finally {
    busy = false;
  }
  draw();
}

async function hold() {
  forgetPayment();
  const wanted = sorted(chosen).join();
  const answer = await call(`${api}/claims`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ items: [...chosen] }),
  });
  if (answer.ok) {
    own(answer);
    if (ends - Date.now() <= lastMinute) {
      warned = claim.ends_at; // a hold that begins so short needs no warning
    }
    if (sorted(heldSeats()).join() !== wanted) { // the visitor has a claim already, for example in another tab
      return say("You have other seats already", "To change them, give them back and choose again.", "warn");
    }
    return say("Reserved for you", "Pay before the time is over.", "good");
  }
  say("You have no seats yet", answer.body.detail, "bad");
  busy = false;
  await refresh(); // after item-taken it says which seats are gone
}

async function giveBack() {
  const { ok, body } = await call(`${api}/claims/me?claim_id=${claim.claim_id}`, { method: "DELETE" });
  if (!ok) {
    return say("The seats are still yours", body.detail, "bad");
  }
  forgetPayment();
  heldSeats().forEach((name) => free.add(name));
  own({ ok: false });
  say("The seats are free again", "Choose again, or come back later. If you have paid, you get your money back.");
}

function forgetPayment() {
  history.replaceState(null, "", "/");
}

holdButton.addEventListener("click", () => asVisitor(hold));
backButton.addEventListener("click", () => asVisitor(giveBack));
payButton.form.addEventListener("submit", (event) => busy && event.preventDefault());
await build();
say("Choose your seats");
own(await call(`${api}/claims/me`));
if (claim?.ends_at && !paymentOf()) {
  say("Reserved for you", "Pay before the time is over.", "good");
} else if (claim) {
  await readClaim();
}
await refresh();
setInterval(countDown, 1000);
for (;;) {
  await pause(refreshEvery);
  await refresh();
}
