// <oncebox-claim>: gets a visitor's code from the claim API, and shows it. The server puts SETTINGS in: the campaign,
// the texts by language, whether claimants have tokens, and the challenge.
(() => {
  "use strict";

  const settings = SETTINGS;
  const script = document.currentScript.src; // BASE/c/CAMPAIGN/claim.js
  const api = new URL(`../../campaigns/${settings.campaign}`, script).href;

  const requestTimeout = 15_000; // milliseconds
  const longestWait = 30; // seconds between two tries
  const mostTries = 12; // in a row without the visitor
  const askEvery = 20; // seconds, while a campaign has no item but may get one; up to half of it is added at random
  const longestTimer = 2 ** 31 - 1; // milliseconds; a longer one fires at once

  const style = `
    :host { display: block; font: inherit; color: var(--oncebox-text, #1b1c1f); }
    [hidden] { display: none !important; }
    .panel { padding: clamp(1rem, 4vw, 2rem); background: var(--oncebox-panel, #ffffff);
      border: 1px solid var(--oncebox-border, #8a8f98); border-radius: var(--oncebox-radius, 0.75rem); }
    h2, p { margin: 0; overflow-wrap: anywhere; }
    h2:focus { outline: none; }
    .panel > * + *, .status > * + *, .items > * + * { margin-top: 1rem; }
    .head { display: flex; align-items: center; gap: 0.75rem; }
    .heading { min-width: 0; font-size: 1.25em; line-height: 1.3; }
    .icon { flex: none; width: 2.5rem; height: 2.5rem; padding: 0.5rem; box-sizing: border-box; border-radius: 50%;
      background: var(--tone); fill: none; stroke: var(--on-tone, #ffffff); stroke-width: 2.5; stroke-linecap: round; stroke-linejoin: round; }
    .panel { border-top: 0.375rem solid var(--tone); }
    .panel[data-tone=go] { --tone: var(--oncebox-accent, #0b57d0); --on-tone: var(--oncebox-accent-text, #ffffff); }
    .panel[data-tone=done] { --tone: #187a3a; }
    .panel[data-tone=wait] { --tone: #8a5a00; }
    .panel[data-tone=over] { --tone: #5f6368; }
    .panel[data-tone=stop] { --tone: #c5221f; }
    .countdown { font-weight: 600; font-variant-numeric: tabular-nums; }
    .code { display: block; padding: 0.75rem 1rem; font: 600 clamp(1.125rem, 5vw, 1.5rem)/1.4 ui-monospace, monospace;
      border: 2px dashed var(--oncebox-border, #8a8f98); border-radius: calc(var(--oncebox-radius, 0.75rem) / 2);
      overflow-wrap: anywhere; white-space: pre-wrap; user-select: all; }
    .columns { display: grid; grid-template-columns: fit-content(50%) minmax(0, 1fr); gap: 0.25rem 1rem; margin: 0.5rem 0 0; }
    dt { font-weight: 600; overflow-wrap: anywhere; }
    dd { margin: 0; overflow-wrap: anywhere; }
    button { display: block; width: 100%; min-height: 3rem; padding: 0.75rem 1.25rem; font: inherit; font-weight: 600;
      color: var(--oncebox-accent-text, #ffffff); background: var(--oncebox-accent, #0b57d0);
      border: 2px solid transparent; border-radius: calc(var(--oncebox-radius, 0.75rem) / 2); cursor: pointer; }
    button:focus-visible { outline: 3px solid var(--oncebox-text, #1b1c1f); outline-offset: 2px; }
    @media (min-width: 30rem) { button { width: auto; } }`;

  const languageOf = (tag) => tag.toLowerCase().split("-")[0];

  // chooseLocale takes the visitor's first language that has texts, with its region: it decides how times are written.
  function chooseLocale(wanted) {
    return wanted.find((tag) => Object.hasOwn(settings.languages, languageOf(tag))) ?? settings.fallback;
  }

  // A memory that does not work, as in a private window, is none.
  function remembered(storage, key) {
    try {
      return storage().getItem(key);
    } catch {
      return null;
    }
  }
  function remember(storage, key, value) {
    try {
      storage().setItem(key, value);
    } catch {
      // the visitor has to open the link again
    }
  }

  // takeToken takes the token of a personal link out of the address. The tab remembers it for a reload.
  function takeToken() {
    const key = `oncebox:token:${settings.campaign}`;
    const token = new URLSearchParams(location.hash.slice(1)).get("t");
    if (token === null) {
      return remembered(() => sessionStorage, key) ?? "";
    }
    history.replaceState(history.state, "", location.pathname + location.search);
    remember(() => sessionStorage, key, token);
    return token;
  }

  // browserClaimant names the visitor where the API is open: one name for each browser.
  function browserClaimant() {
    const key = "oncebox:claimant";
    let name = remembered(() => localStorage, key);
    if (!name) {
      name = crypto.randomUUID();
      remember(() => localStorage, key, name);
    }
    return name;
  }

  // call sends a request. A reply that never came has the status 0. ahead is by how much the server's clock is at most
  // ahead of the visitor's, in milliseconds, or 0 if it is not known. The header has whole seconds, and is made after the
  // request began. So the visitor never sees more time than there is.
  async function call(method, path, token, body) {
    const headers = {};
    if (token) {
      headers.Authorization = `Bearer ${token}`;
    }
    if (body) {
      headers["Content-Type"] = "application/json";
    }
    const began = Date.now();
    try {
      const reply = await fetch(api + path, {
        method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(requestTimeout),
        cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer",
      });
      const document = await reply.json().catch(() => ({}));
      const problem = String(document.type ?? "").split("#")[1] ?? "";
      const ahead = Date.parse(reply.headers.get("Date")) + 1000 - began || 0;
      return { status: reply.status, document, problem, wait: Number(reply.headers.get("Retry-After")) || 0, ahead };
    } catch {
      return { status: 0, document: {}, problem: "", wait: 0, ahead: 0 };
    }
  }

  function textElement(tag, text) {
    const made = document.createElement(tag);
    made.textContent = text;
    return made;
  }

  // columnList shows the columns of an item. It is nothing if there are none.
  function columnList(columns = {}) {
    const list = document.createElement("dl");
    list.className = "columns";
    list.part = "columns";
    for (const [name, value] of Object.entries(columns)) {
      list.append(textElement("dt", name), textElement("dd", value));
    }
    return list.children.length > 0 ? [list] : [];
  }

  function itemElement({ item, columns }) {
    const made = document.createElement("div");
    const code = textElement("code", item);
    code.className = "code";
    code.part = "code";
    made.append(code, ...columnList(columns));
    return made;
  }

  // duration writes milliseconds as 1:05 or 2:01:05.
  function duration(milliseconds) {
    const seconds = Math.ceil(milliseconds / 1000);
    const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
    const shown = parts[0] > 0 ? parts : parts.slice(1);
    return shown.map((part, i) => (i > 0 ? String(part).padStart(2, "0") : part)).join(":");
  }

  // whenVisible calls f as soon as the visitor sees the page.
  function whenVisible(f) {
    if (document.hidden) {
      document.addEventListener("visibilitychange", f, { once: true });
    } else {
      f();
    }
  }

  // Failures that pass, by the state that they show: too many requests, or no answer of the service.
  const passing = (reply) =>
    [429, 503].includes(reply.status) ? "waiting" :
    [0, 502, 504].includes(reply.status) || reply.problem === "internal" ? "unreachable" : "";

  // Problems that end in a text, with the names of the texts.
  const endings = {
    "closed": "closed", "claimed-elsewhere": "elsewhere", "link-expired": "expired",
    "invalid-link": "invalid", "unauthenticated": "no_link", "other-campaign": "other_campaign",
    "not-eligible": "not_eligible", "no-such-campaign": "no_campaign",
  };

  // What a state is about decides its icon and colour. A state that is not named here is a problem: stop.
  const tones = {
    loading: "wait", ready: "go", challenge: "go", code: "done", sold_out: "over", closed: "over", not_open: "wait",
    not_started: "wait", ended: "wait", waiting: "wait", unreachable: "stop",
  };
  const icons = {
    go: "M3 7h18v3a2 2 0 0 0 0 4v3H3v-3a2 2 0 0 0 0-4z",
    done: "M4 12.5l5.5 5.5L20 7",
    wait: "M12 2a10 10 0 1 0 0 20a10 10 0 1 0 0-20M12 7v5l4 2.5",
    over: "M5 12h14",
    stop: "M12 4v10M12 19.5v.5",
  };

  class OnceboxClaim extends HTMLElement {
    #parts = {};
    #texts;
    #locale;
    #token = "";
    #claimant = "";
    #action = null; // what the button does
    #tries = 0; // that failed in a row
    #timer = 0;
    #clock = 0; // of the countdown
    #solution = ""; // of the challenge
    #widget;

    connectedCallback() {
      if (!this.shadowRoot) {
        this.#build();
      }
      if (settings.token) {
        this.#token ||= takeToken();
      } else {
        this.#claimant ||= browserClaimant();
      }
      this.#look();
    }

    disconnectedCallback() {
      clearTimeout(this.#timer);
      clearInterval(this.#clock);
    }

    // token is for pages that get the token in another way than by a link.
    set token(token) {
      this.#token = token;
      if (this.isConnected) {
        this.#look();
      }
    }

    #build() {
      const wanted = this.closest("[lang]")?.lang;
      const wished = navigator.languages.filter((tag) => !wanted || languageOf(tag) === languageOf(wanted));
      this.#locale = chooseLocale([...wished, wanted ?? "", ...navigator.languages]);
      const language = languageOf(this.#locale);
      this.#texts = settings.languages[language];
      const root = this.attachShadow({ mode: "open" });
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(style);
      root.adoptedStyleSheets = [sheet];
      const part = (name, tag, attributes = {}) => {
        const made = document.createElement(tag);
        made.className = name;
        made.setAttribute("part", name);
        for (const [attribute, value] of Object.entries(attributes)) {
          made.setAttribute(attribute, value);
        }
        this.#parts[name] = made;
        return made;
      };
      const panel = part("panel", "div", { lang: language });
      const status = part("status", "div", { role: "status" }); // a screen reader reads all of it when it changes
      const head = document.createElement("div");
      head.className = "head";
      head.append(this.#icon(), part("heading", "h2", { tabindex: "-1" }));
      status.append(head, part("message", "p"), part("items", "div"), part("until", "p"));
      panel.append(
        status,
        part("countdown", "p", { role: "timer" }), // no screen reader reads each second
        part("challenge", "slot", { name: "challenge" }),
        part("button", "button", { type: "button" }),
      );
      this.#parts.button.addEventListener("click", () => this.#action?.());
      root.append(panel);
    }

    #icon() {
      const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      icon.setAttribute("viewBox", "0 0 24 24");
      icon.setAttribute("class", "icon");
      icon.setAttribute("part", "icon");
      icon.setAttribute("aria-hidden", "true");
      icon.append(path);
      this.#parts.drawing = path;
      return icon;
    }

    // show is the only way in which the element changes. The first line of a text is the heading. A text that stays is
    // not written again, since a screen reader would read it again. A button that had the focus and has gone gives it to
    // the heading.
    #show(state, { message = this.#texts[state], tone = tones[state] ?? "stop", items = [], until = "", button = "", action = null } = {}) {
      clearTimeout(this.#timer);
      clearInterval(this.#clock);
      const parts = this.#parts;
      const hadFocus = this.shadowRoot.activeElement === parts.button;
      const [heading, ...lines] = message.split("\n");
      this.dataset.state = state;
      parts.panel.dataset.tone = tone;
      parts.drawing.setAttribute("d", icons[tone]);
      this.#write("heading", heading);
      this.#write("message", lines.join("\n"));
      parts.items.replaceChildren(...items.map(itemElement));
      parts.items.hidden = items.length === 0;
      this.#write("until", until);
      this.#write("countdown", "");
      parts.challenge.hidden = state !== "challenge" && state !== "challenge_failed";
      this.#write("button", button);
      this.#action = action;
      if (hadFocus && !(button && action)) {
        parts.heading.focus();
      }
      this.dispatchEvent(new CustomEvent("oncebox-state", { detail: { state }, bubbles: true, composed: true }));
    }

    #write(name, text) {
      const part = this.#parts[name];
      if (part.textContent !== text) {
        part.textContent = text;
      }
      part.hidden = !text;
    }

    // ask is call for the present visitor. If a script has set another token meanwhile, the answer does not come.
    async #ask(...request) {
      const token = this.#token;
      const reply = await call(...request);
      return token === this.#token ? reply : new Promise(() => {});
    }

    get #path() {
      return `/claims/${this.#token ? "me" : encodeURIComponent(this.#claimant)}`;
    }

    // look shows the visitor's code, or else what the campaign has for the visitor. A look that the visitor has not asked
    // for shows nothing until it has an answer.
    async #look(quietly = false) {
      if (settings.token && !this.#token) {
        return this.#show("no_link");
      }
      if (!quietly) {
        this.#show("loading");
      }
      const held = await this.#ask("GET", this.#path, this.#token);
      if (held.status === 200) {
        return this.#grant(held);
      }
      if (held.problem !== "no-claim" && held.problem !== "claimed-elsewhere") {
        return this.#refused(held, () => this.#look(true));
      }
      const campaign = await this.#ask("GET", "", "");
      if (campaign.status !== 200) {
        return this.#refused(campaign, () => this.#look(true));
      }
      this.#tries = 0;
      this.#offer(campaign);
    }

    #offer({ document: { state, opens_at: opensAt, items_return: returns }, ahead }) {
      switch (state) {
        case "open":
          return settings.challenge ? this.#challenge("challenge") : this.#ready();
        case "scheduled":
          return this.#untilOpen(new Date(opensAt), ahead);
        case "closed":
          return this.#show("closed");
        case "empty":
          return this.#askOn("not_started");
        default: // sold_out
          return returns ? this.#askOn("sold_out", { message: this.#texts.sold_out_now, tone: "wait" }) : this.#show("sold_out");
      }
    }

    #ready() {
      this.#show("ready", { button: this.#texts.button, action: () => this.#claim() });
    }

    // askOn shows that there is nothing now, and looks again while the visitor sees the page.
    #askOn(state, look) {
      this.#show(state, look);
      this.#timer = setTimeout(() => whenVisible(() => this.#look(true)), 1000 * askEvery * (1 + Math.random() / 2));
    }

    // untilOpen waits up to 3 s longer, so that not all visitors come at once. It goes by the server's clock.
    #untilOpen(opens, ahead) {
      this.#show("not_open", { message: this.#texts.not_open.replace("{time}", this.#time(opens)) });
      const wait = Math.max(opens - ahead - Date.now(), 2000) + 3000 * Math.random();
      this.#timer = setTimeout(() => this.#look(true), Math.min(wait, longestTimer));
    }

    async #claim() {
      this.#show("loading");
      const body = settings.token ? {} : { claimant: this.#claimant };
      if (settings.challenge) {
        body.challenge = this.#solution;
        this.#solution = ""; // it counts once
      }
      const reply = await this.#ask("POST", "/claims", this.#token, body);
      if (reply.status === 200 || reply.status === 201) {
        return this.#grant(reply);
      }
      if (reply.problem === "not-open") {
        return this.#look(true);
      }
      if (reply.problem === "sold-out") {
        return this.#soldOut();
      }
      if (reply.problem === "challenge-failed" || reply.problem === "challenge-unavailable") {
        return this.#challenge("challenge_failed");
      }
      this.#refused(reply, () => (settings.challenge ? this.#look(true) : this.#claim()));
    }

    // soldOut asks whether items may come back. The state may be a moment older than the refusal.
    async #soldOut() {
      const campaign = await this.#ask("GET", "", "");
      if (campaign.status !== 200) {
        return this.#refused(campaign, () => this.#look(true));
      }
      if (campaign.document.state === "open") {
        campaign.document.state = "sold_out";
      }
      this.#offer(campaign);
    }

    // grant shows all items of a claim, and how long the claim lasts.
    #grant({ document: claim, ahead }) {
      const ends = claim.ends_at && new Date(claim.ends_at) - ahead; // by the visitor's clock
      if (ends && ends <= Date.now()) {
        return this.#tryAgain("ended", 0, () => this.#look(true));
      }
      this.#tries = 0;
      const items = claim.items ?? [claim];
      const several = items.length > 1;
      this.#show("code", {
        message: ends ? this.#texts.reserved : several ? this.#texts.codes : this.#texts.code, items,
        tone: ends ? "wait" : "done",
        button: several ? this.#texts.copy_all : this.#texts.copy, action: () => this.#copy(items),
        until: ends ? this.#texts.until.replace("{time}", this.#time(new Date(claim.ends_at))) : "",
      });
      if (ends) {
        this.#countDown(ends);
      }
    }

    // countDown shows the time that is left, on the last day, and then looks what became of the claim.
    #countDown(ends) {
      const day = 24 * 3600 * 1000;
      const tick = () => {
        const left = ends - Date.now();
        if (left <= 0) {
          return this.#tryAgain("ended", 0, () => this.#look(true));
        }
        this.#write("countdown", left < day ? this.#texts.countdown.replace("{left}", duration(left)) : "");
      };
      this.#clock = setInterval(tick, 1000);
      tick();
    }

    async #copy(items) {
      const { heading, items: shown } = this.#parts;
      try {
        await navigator.clipboard.writeText(items.map(({ item }) => item).join("\n"));
        heading.textContent = this.#texts.copied;
      } catch {
        heading.textContent = this.#texts.not_copied;
        getSelection().selectAllChildren(items.length > 1 ? shown : shown.querySelector("code"));
      }
    }

    // refused shows why there is no code.
    #refused(reply, again) {
      const passes = passing(reply);
      if (passes) {
        return this.#tryAgain(passes, reply.wait, again);
      }
      const ending = endings[reply.problem];
      const message = ending ? this.#texts[ending] : this.#texts.failed.replace("{id}", reply.document.instance ?? reply.status);
      this.#show(ending ?? "failed", { message });
    }

    // tryAgain tries something that passes again, later each time. After the last try only the visitor does.
    #tryAgain(state, wait, again) {
      this.#tries++;
      const goesOn = this.#tries < mostTries;
      this.#show(state, {
        message: goesOn ? this.#texts[state] : this.#texts.stopped,
        button: this.#texts.again, action: () => { this.#tries = 0; again(); },
      });
      if (goesOn) {
        const seconds = Math.max(wait, Math.min(2 ** (this.#tries - 1), longestWait));
        this.#timer = setTimeout(again, 1000 * seconds * (1 + Math.random() / 2));
      }
    }

    // challenge shows the widget of the provider, in the page's own tree: providers do not look into others.
    async #challenge(state) {
      this.#show(state);
      const solved = (solution) => {
        this.#solution = solution;
        this.#show(state, { button: this.#texts.button, action: () => this.#claim() });
      };
      const widgets = await loadWidgets();
      if (!widgets) {
        return this.#tryAgain("unreachable", 0, () => this.#challenge(state));
      }
      if (this.#widget !== undefined) {
        return widgets.reset(this.#widget);
      }
      const place = document.createElement("div");
      place.slot = "challenge";
      this.append(place);
      this.#widget = widgets.render(place, {
        sitekey: settings.challenge.site_key, action: settings.challenge.action,
        callback: solved, "expired-callback": () => this.#show(state),
      });
    }

    #time(at) {
      return new Intl.DateTimeFormat(this.#locale, { dateStyle: "full", timeStyle: "long" }).format(at);
    }
  }

  // loadWidgets loads the script of the challenge's provider once. All three providers have the same three functions.
  let loading;
  function loadWidgets() {
    loading ??= new Promise((done) => {
      globalThis.onceboxWidgets = () => done(globalThis[settings.challenge.global]);
      const tag = document.createElement("script");
      tag.src = `${settings.challenge.script}?render=explicit&onload=onceboxWidgets`;
      tag.async = true;
      tag.onerror = () => {
        loading = undefined;
        tag.remove();
        done(null);
      };
      document.head.append(tag);
    });
    return loading;
  }

  if (!customElements.get("oncebox-claim")) {
    customElements.define("oncebox-claim", OnceboxClaim);
  }
})();
