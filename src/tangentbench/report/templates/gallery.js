(() => {
  "use strict";

  const root = document.documentElement;
  const THEME_KEY = "tangentbench-theme";
  const GROUPS = ["study", "state", "kind"];
  root.classList.add("js");

  // Storage throws on file:// in some browsers and when cookies are off; the theme then lasts as long as the page.
  function storedTheme() {
    try {
      return localStorage.getItem(THEME_KEY);
    } catch {
      return null;
    }
  }

  function storeTheme(theme) {
    try {
      localStorage.setItem(THEME_KEY, theme);
    } catch {
      return;
    }
  }

  function currentTheme() {
    if (root.dataset.theme) return root.dataset.theme;
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }

  const remembered = storedTheme();
  if (remembered === "light" || remembered === "dark") root.dataset.theme = remembered;

  function startTheme() {
    const button = document.getElementById("theme");
    const label = document.getElementById("theme-label");
    const describe = () => {
      const other = currentTheme() === "dark" ? "light" : "dark";
      label.textContent = other === "dark" ? "Dark" : "Light";
      button.setAttribute("aria-label", `Switch to the ${other} theme`);
    };
    button.addEventListener("click", () => {
      root.dataset.theme = currentTheme() === "dark" ? "light" : "dark";
      storeTheme(root.dataset.theme);
      describe();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", describe);
    describe();
  }

  function startFilter() {
    const search = document.getElementById("search");
    const chips = [...document.querySelectorAll(".chip")];
    const reset = document.getElementById("reset");
    const cards = [...document.querySelectorAll("article.card")].map((element) => ({
      element,
      text: [element, ...element.querySelectorAll("[data-searchable]")]
        .map((part) => (part === element ? part.id : part.textContent))
        .join(" ")
        .toLowerCase(),
      values: Object.fromEntries(GROUPS.map((group) => [group, element.dataset[group].split(" ")])),
    }));
    const frames = [...document.querySelectorAll("[data-study-section]")];

    const pressed = (group) =>
      chips
        .filter((chip) => chip.dataset.group === group && chip.getAttribute("aria-pressed") === "true")
        .map((chip) => chip.dataset.value);

    function apply() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const wanted = GROUPS.map((group) => [group, pressed(group)]).filter(([, values]) => values.length > 0);
      let count = 0;
      for (const card of cards) {
        const fits =
          words.every((word) => card.text.includes(word)) &&
          wanted.every(([group, values]) => values.some((value) => card.values[group].includes(value)));
        card.element.hidden = !fits;
        if (fits) count += 1;
      }
      for (const frame of frames) frame.hidden = !frame.querySelector("article.card:not([hidden])");
      const active = wanted.reduce((sum, [, values]) => sum + values.length, 0);
      document.getElementById("shown").textContent =
        count === cards.length ? `${count} artifacts` : `${count} of ${cards.length} artifacts`;
      document.getElementById("active-count").textContent = active ? ` (${active})` : "";
      document.getElementById("nothing").hidden = count > 0;
      reset.hidden = active === 0 && words.length === 0;
    }

    function asHash() {
      const parts = GROUPS.map((group) => [group, pressed(group)])
        .filter(([, values]) => values.length > 0)
        .map(([group, values]) => `${group}=${values.map(encodeURIComponent).join(",")}`);
      if (search.value.trim()) parts.push(`q=${encodeURIComponent(search.value.trim())}`);
      return parts.length ? `#${parts.join("&")}` : "";
    }

    function remember() {
      const address = asHash() || location.pathname + location.search;
      try {
        history.replaceState(null, "", address);
      } catch {
        location.hash = asHash();
      }
    }

    function clear() {
      for (const chip of chips) chip.setAttribute("aria-pressed", "false");
      search.value = "";
    }

    // "#study=npk&state=failed" is a filter; "#npk_fig6" is a place on the page.
    function follow() {
      const hash = location.hash.slice(1);
      if (hash.includes("=")) {
        const wanted = new URLSearchParams(hash);
        clear();
        search.value = wanted.get("q") || "";
        for (const chip of chips) {
          const values = (wanted.get(chip.dataset.group) || "").split(",");
          chip.setAttribute("aria-pressed", String(values.includes(chip.dataset.value)));
        }
        apply();
        return;
      }
      const place = hash && document.getElementById(hash);
      const card = place && place.closest("article.card");
      if (card && card.hidden) {
        clear();
        apply();
        card.scrollIntoView();
      }
    }

    for (const chip of chips) {
      chip.addEventListener("click", () => {
        chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
        apply();
        remember();
      });
    }
    search.addEventListener("input", () => {
      apply();
      remember();
    });
    reset.addEventListener("click", () => {
      clear();
      apply();
      remember();
      search.focus();
    });
    for (const tile of document.querySelectorAll(".tile")) {
      tile.addEventListener("click", () => document.getElementById("artifacts").scrollIntoView());
    }
    addEventListener("hashchange", follow);
    follow();
    apply();
  }

  function startPanel() {
    const toggle = document.getElementById("panel-toggle");
    const panel = document.getElementById("panel");
    toggle.addEventListener("click", () => {
      const open = toggle.getAttribute("aria-expanded") !== "true";
      toggle.setAttribute("aria-expanded", String(open));
      panel.classList.toggle("open", open);
    });
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const field = document.createElement("textarea");
      field.value = text;
      document.body.append(field);
      field.select();
      const done = document.execCommand("copy");
      field.remove();
      return done;
    }
  }

  function startCopy() {
    for (const button of document.querySelectorAll("[data-copy]")) {
      button.addEventListener("click", async () => {
        const done = await copy(button.dataset.copy);
        button.textContent = done ? "Copied" : "Not copied";
        setTimeout(() => (button.textContent = "Copy"), 1600);
      });
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    startTheme();
    startFilter();
    startPanel();
    startCopy();
  });
})();
