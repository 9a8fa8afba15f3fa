/** Elements without markup: every text goes in as text. */

export interface Parts {
  class?: string;
  text?: string;
  title?: string;
  attributes?: Record<string, string>;
  on?: Record<string, (event: Event) => void>;
}

export function el<K extends keyof HTMLElementTagNameMap>(tag: K, parts: Parts = {}, ...children: (Node | null)[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (parts.class) element.className = parts.class;
  if (parts.text !== undefined) element.textContent = parts.text;
  if (parts.title) element.title = parts.title;
  for (const [name, value] of Object.entries(parts.attributes ?? {})) element.setAttribute(name, value);
  for (const [name, callback] of Object.entries(parts.on ?? {})) element.addEventListener(name, callback);
  element.append(...children.filter((child) => child !== null));
  return element;
}

// Drawn on a 16-pixel grid with a stroke of 1.4.
const ICONS = {
  pan: "M8 1.5v13M1.5 8h13M8 1.5 6.2 3.3M8 1.5l1.8 1.8M8 14.5l-1.8-1.8M8 14.5l1.8-1.8M1.5 8l1.8-1.8M1.5 8l1.8 1.8M14.5 8l-1.8-1.8M14.5 8l-1.8 1.8",
  box: "M2.5 5V2.5H5M7 2.5h2M11 2.5h2.5V5M13.5 7v2M13.5 11v2.5H11M9 13.5H7M5 13.5H2.5V11M2.5 9V7",
  lasso: "M5.2 11.2C2.9 10.5 1.5 8.9 1.5 7c0-2.6 2.9-4.6 6.5-4.6s6.5 2 6.5 4.6-2.9 4.6-6.5 4.6c-.6 0-1.2-.1-1.8-.2M6.6 10.6a1.4 1.4 0 1 1-2.8 0 1.4 1.4 0 0 1 2.8 0ZM5.6 11.9c.3 1-.2 1.9-1.4 2.4",
  window: "M2 3.5h12v9H2zM2 6h12M8 8v3M6.5 9.5h3",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4",
  target: "M8 4.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7ZM8 1v3M8 12v3M1 8h3M12 8h3",
  layers: "M8 2 1.8 5.4 8 8.8l6.2-3.4zM1.8 8.2 8 11.6l6.2-3.4M1.8 11 8 14.4l6.2-3.4",
  table: "M2 3h12v10H2zM2 6.3h12M2 9.6h12M6.5 6.3V13",
  rows: "M2.5 4h.01M2.5 8h.01M2.5 12h.01M5.5 4H14M5.5 8H14M5.5 12H14",
  full: "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4M5 5h6v6H5z",
  picture: "M2 3h12v10H2zM2 11l3.5-3.5 3 3L11 8l3 3M10.5 6h.01",
  undo: "M6 3 2.5 6.5 6 10M2.5 6.5H10a3.5 3.5 0 0 1 0 7H7",
  close: "M4 4l8 8M12 4l-8 8",
  previous: "M10 3 5 8l5 5",
  next: "M6 3l5 5-5 5",
} as const;

export type IconName = keyof typeof ICONS;

export function icon(name: IconName): SVGSVGElement {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const path = document.createElementNS(space, "path");
  const attributes = { viewBox: "0 0 16 16", width: "16", height: "16", fill: "none", stroke: "currentColor", "stroke-width": "1.4" };
  for (const [key, value] of Object.entries({ ...attributes, "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" })) {
    svg.setAttribute(key, value);
  }
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** A button of one icon; its label is a tooltip and for screen readers. */
export function iconButton(name: IconName, label: string, pressed: () => void): HTMLButtonElement {
  const button = el("button", { class: "glm-button", title: label, attributes: { type: "button", "aria-label": label } }, icon(name));
  button.addEventListener("click", pressed);
  return button;
}

/** Calls at most once per interval, the last call never lost. */
export function throttled<A extends unknown[]>(milliseconds: number, call: (...args: A) => void): { (...args: A): void; cancel(): void } {
  let timer: ReturnType<typeof setTimeout> | null = null;
  let waiting: A | null = null;
  let last = -Infinity;
  const fire = (): void => {
    timer = null;
    if (!waiting) return;
    const args = waiting;
    waiting = null;
    last = performance.now();
    call(...args);
  };
  const run = (...args: A): void => {
    waiting = args;
    timer ??= setTimeout(fire, Math.max(0, last + milliseconds - performance.now()));
  };
  run.cancel = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    waiting = null;
  };
  return run;
}

/** Shows in the cell what would otherwise end in the console. */
export class Guard {
  private readonly shown = new Set<string>();

  constructor(private readonly root: HTMLElement) {}

  run<T>(work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.show(error);
      return undefined;
    }
  }

  wrap<A extends unknown[]>(work: (...args: A) => void): (...args: A) => void {
    return (...args) => void this.run(() => work(...args));
  }

  /** Removes the messages: what failed works again. */
  clear(): void {
    this.shown.clear();
    for (const message of this.root.querySelectorAll(":scope > .glm-error")) message.remove();
  }

  show(error: unknown): void {
    console.error(error);
    const text = error instanceof Error ? error.message : String(error);
    if (this.shown.has(text)) return;
    this.shown.add(text);
    this.root.prepend(el("div", { class: "glm-error", text: `The map failed: ${text}`, attributes: { role: "alert" } }));
  }
}
