"use strict";
// Keeps the page fresh: asks the server for it again, and puts in what has changed.
(() => {
  const EVERY = 4000;
  const LONGEST = 10000;
  const gone = document.getElementById("gone");
  const find = document.getElementById("find");
  let asked = 0;
  let timer = 0;

  function replace(old, fresh) {
    if (old.outerHTML === fresh.outerHTML) return;
    const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const scrolled = old.querySelector(".scroll") ? old.querySelector(".scroll").scrollLeft : 0;
    old.replaceWith(fresh);
    if (scrolled) fresh.querySelector(".scroll").scrollLeft = scrolled;
    if (focused) for (const link of fresh.querySelectorAll("a")) if (link.getAttribute("href") === focused) link.focus();
  }

  // Children that have an id keep their place in the page as long as their order is the same.
  function take(into, from) {
    const known = new Map([...into.children].map((child) => [child.id, child]));
    let place = into.firstElementChild;
    for (const fresh of [...from.children]) {
      const old = known.get(fresh.id);
      known.delete(fresh.id);
      if (!old) {
        into.insertBefore(fresh, place);
        continue;
      }
      if (old === place) place = place.nextElementSibling;
      else into.insertBefore(old, place);
      if (old.hasAttribute("data-keyed") && fresh.hasAttribute("data-keyed")) take(old, fresh);
      else replace(old, fresh);
    }
    for (const old of known.values()) old.remove();
  }

  async function look() {
    clearTimeout(timer);
    const mine = ++asked;
    try {
      const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(LONGEST) });
      if (!answer.ok) throw new Error(String(answer.status));
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (mine !== asked) return;
      take(document.querySelector("main"), page.querySelector("main"));
      document.title = page.title;
      gone.hidden = true;
      document.body.classList.remove("old");
    } catch {
      if (mine !== asked) return;
      gone.hidden = false;
      document.body.classList.add("old");
    }
    document.documentElement.dataset.looked = String(Number(document.documentElement.dataset.looked || 0) + 1);
    timer = setTimeout(look, EVERY);
  }

  if (find) {
    find.addEventListener("input", () => {
      const words = find.value.trim();
      history.replaceState(null, "", words ? "/?find=" + encodeURIComponent(words) : "/");
      look();
    });
    find.form.addEventListener("submit", (event) => event.preventDefault());
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && document.activeElement !== find) {
        event.preventDefault();
        find.focus();
      }
    });
  }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) clearTimeout(timer);
    else look();
  });
  timer = setTimeout(look, EVERY);
})();
