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
  const longestTimer = 2 ** 31 - 1; // milliseconds; a longer one fires at once

  const style = `
    :host { display: block; font: inherit; color: var(--oncebox-text, #1b1c1f); }
    [hidden] { display: none !important; }
    .panel { padding: clamp(1rem, 4vw, 2rem); background: var(--oncebox-panel, #ffffff);
      border: 1px solid var(--oncebox-border, #8a8f98); border-radius: var(--oncebox-radius, 0.75rem); }
    p { margin: 0; overflow-wrap: anywhere; }
    p:focus { outline: none; }
    .panel > * + *, .status > * + * { margin-top: 1rem; }
    .code { display: block; padding: 0.75rem 1rem; font: 600 clamp(1.125rem, 5vw, 1.5rem)/1.4 ui-monospace, monospace;
      border: 2px dashed var(--oncebox-border, #8a8f98); border-radius: calc(var(--oncebox-radius, 0.75rem) / 2);
      overflow-wrap: anywhere; white-space: pre-wrap; user-select: all; }
    .columns { display: grid; grid-template-columns: fit-content(50%) minmax(0, 1fr); gap: 0.25rem 1rem; margin-bottom: 0; }
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

  // call sends a request. A reply that never came has the status 0.
  async function call(method, path, token, body) {
    const headers = {};
    if (token) {
      headers.Authorization = `Bearer ${token}`;
    }
    if (body) {
      headers["Content-Type"] = "application/json";
    }
    try {
      const reply = await fetch(api + path, {
        method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(requestTimeout),
        cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer",
      });
      const document = await reply.json().catch(() => ({}));
      const problem = String(document.type ?? "").split("#")[1] ?? "";
      return { status: reply.status, document, problem, wait: Number(reply.headers.get("Retry-After")) || 0 };
    } catch {
      return { status: 0, document: {}, problem: "", wait: 0 };
    }
  }

  function textElement(tag, text) {
    const made = document.createElement(tag);
    made.textContent = text;
    return made;
  }

  const passes = (reply) => [0, 429, 502, 503, 504].includes(reply.status) || reply.problem === "internal";

  // Problems that end in a text, with the names of the texts.
  const endings = {
    "sold-out": "sold_out", "closed": "closed", "claimed-elsewhere": "elsewhere", "link-expired": "expired",
    "invalid-link": "invalid", "unauthenticated": "no_link", "other-campaign": "other_campaign",
    "not-eligible": "not_eligible",
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
      status.append(part("message", "p", { tabindex: "-1" }), part("code", "code"), part("columns", "dl"), part("until", "p"));
      panel.append(
        status,
        part("challenge", "slot", { name: "challenge" }),
        part("button", "button", { type: "button" }),
      );
      this.#parts.button.addEventListener("click", () => this.#action?.());
      root.append(panel);
    }

    // show is the only way in which the element changes. A button that had the focus and has gone gives it to the text.
    #show(state, { message = this.#texts[state], code = "", columns = {}, until = "", button = "", action = null } = {}) {
      clearTimeout(this.#timer);
      const parts = this.#parts;
      const hadFocus = this.shadowRoot.activeElement === parts.button;
      this.dataset.state = state;
      parts.message.textContent = message;
      parts.code.textContent = code;
      parts.code.hidden = !code;
      const pairs = Object.entries(columns).map(([name, value]) => [textElement("dt", name), textElement("dd", value)]);
      parts.columns.replaceChildren(...pairs.flat());
      parts.columns.hidden = pairs.length === 0;
      parts.until.textContent = until;
      parts.until.hidden = !until;
      parts.challenge.hidden = state !== "challenge" && state !== "challenge_failed";
      parts.button.textContent = button;
      parts.button.hidden = !button;
      this.#action = action;
      if (hadFocus && !(button && action)) {
        parts.message.focus();
      }
      this.dispatchEvent(new CustomEvent("oncebox-state", { detail: { state }, bubbles: true, composed: true }));
    }

    get #path() {
      return `/claims/${this.#token ? "me" : encodeURIComponent(this.#claimant)}`;
    }

    // look shows the visitor's code, or else what the campaign has for the visitor.
    async #look() {
      if (settings.token && !this.#token) {
        return this.#show("no_link");
      }
      this.#show("loading");
      const held = await call("GET", this.#path, this.#token);
      if (held.status === 200) {
        return this.#grant(held.document);
      }
      if (held.problem !== "no-claim" && held.problem !== "claimed-elsewhere") {
        return this.#refused(held, () => this.#look());
      }
      const campaign = await call("GET", "", "");
      if (campaign.status !== 200) {
        return this.#refused(campaign, () => this.#look());
      }
      this.#tries = 0;
      this.#offer(campaign.document);
    }

    #offer({ state, opens_at: opensAt }) {
      switch (state) {
        case "open":
          return settings.challenge ? this.#challenge("challenge") : this.#ready();
        case "scheduled":
          return this.#untilOpen(new Date(opensAt));
        case "closed":
          return this.#show("closed");
        default: // sold_out, empty
          return this.#show("sold_out");
      }
    }

    #ready() {
      this.#show("ready", { button: this.#texts.button, action: () => this.#claim() });
    }

    // untilOpen waits up to 3 s longer, so that not all visitors come at once.
    #untilOpen(opens) {
      this.#show("not_open", { message: this.#texts.not_open.replace("{time}", this.#time(opens)) });
      const wait = Math.max(opens - Date.now(), 2000) + 3000 * Math.random();
      this.#timer = setTimeout(() => this.#look(), Math.min(wait, longestTimer));
    }

    async #claim() {
      this.#show("loading");
      const body = settings.token ? {} : { claimant: this.#claimant };
      if (settings.challenge) {
        body.challenge = this.#solution;
        this.#solution = ""; // it counts once
      }
      const reply = await call("POST", "/claims", this.#token, body);
      if (reply.status === 200 || reply.status === 201) {
        return this.#grant(reply.document);
      }
      if (reply.problem === "not-open") {
        return this.#look();
      }
      if (reply.problem === "challenge-failed" || reply.problem === "challenge-unavailable") {
        return this.#challenge("challenge_failed");
      }
      this.#refused(reply, () => (settings.challenge ? this.#look() : this.#claim()));
    }

    #grant(claim) {
      this.#tries = 0;
      this.#show("code", {
        code: claim.item, columns: claim.columns, button: this.#texts.copy, action: () => this.#copy(claim.item),
        until: claim.ends_at ? this.#texts.until.replace("{time}", this.#time(new Date(claim.ends_at))) : "",
      });
    }

    async #copy(item) {
      const message = this.#parts.message;
      try {
        await navigator.clipboard.writeText(item);
        message.textContent = this.#texts.copied;
      } catch {
        message.textContent = this.#texts.not_copied;
        getSelection().selectAllChildren(this.#parts.code);
      }
    }

    // refused shows why there is no code. What passes is tried again, later each time.
    #refused(reply, again) {
      if (!passes(reply)) {
        const ending = endings[reply.problem];
        const message = ending ? this.#texts[ending] : this.#texts.failed.replace("{id}", reply.document.instance ?? reply.status);
        return this.#show(ending ?? "failed", { message });
      }
      this.#tries++;
      this.#show("waiting", { button: this.#texts.again, action: () => { this.#tries = 0; again(); } });
      if (this.#tries < mostTries) {
        const wait = Math.max(reply.wait, Math.min(2 ** (this.#tries - 1), longestWait));
        this.#timer = setTimeout(again, 1000 * wait * (1 + Math.random() / 2));
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
        return this.#refused({ status: 0, wait: 0 }, () => this.#challenge(state));
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
