/** Light or dark: what Python requests, else what the notebook shows, else what the system prefers. */
import type { Theme } from "./colour";

export function themeNow(requested: string): Theme {
  if (requested === "light" || requested === "dark") return requested;
  const { jpThemeLight, theme } = document.body.dataset;
  if (jpThemeLight !== undefined) return jpThemeLight === "false" ? "dark" : "light";
  const named = document.documentElement.dataset.theme ?? theme;
  if (named === "light" || named === "dark") return named;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Calls back whenever the notebook or the system may have changed its theme. */
export function watchTheme(changed: () => void, signal: AbortSignal): void {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed, { signal });
  const observer = new MutationObserver(changed);
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "data-theme", "class"] });
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "class"] });
  signal.addEventListener("abort", () => observer.disconnect());
}

export function movesLittle(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
