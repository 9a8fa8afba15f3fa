/** The two hosts of the map: a kernel through anywidget, and a page that carries its own data. */
import { DEFAULTS, type Host, type Traits } from "./model";

/** What anywidget hands to `render`. */
export interface WidgetModel {
  get(key: string): unknown;
  set(key: string, value: unknown): void;
  save_changes(): void;
  on(event: string, callback: (...args: never[]) => void): void;
  off(event: string, callback: (...args: never[]) => void): void;
  send(message: unknown): void;
}

export function widgetHost(model: WidgetModel): Host {
  return {
    live: true,
    get: <K extends keyof Traits>(key: K) => (model.get(key) ?? DEFAULTS[key]) as Traits[K],
    set(key, value) {
      model.set(key, value);
      model.save_changes();
    },
    on(key, callback) {
      const event = `change:${key}`;
      model.on(event, callback);
      return () => model.off(event, callback);
    },
    send: (message) => model.send(message),
    onMessage(callback) {
      const listener = (message: unknown): void => callback(message);
      model.on("msg:custom", listener);
      return () => model.off("msg:custom", listener);
    },
  };
}

/** Traits as a page holds them: a buffer may be base64 text, deflated (zlib) or not. */
export type PageTraits = { [K in keyof Traits]?: Traits[K] | { base64: string; deflate?: boolean } };

export async function pageHost(traits: PageTraits): Promise<Host> {
  const state: Traits = { ...DEFAULTS };
  for (const [key, value] of Object.entries(traits)) {
    if (key in DEFAULTS) Object.assign(state, { [key]: await opened(value) });
  }
  const listeners = new Map<keyof Traits, Set<() => void>>();
  return {
    live: false,
    get: (key) => state[key],
    set(key, value) {
      state[key] = value;
      for (const callback of [...(listeners.get(key) ?? [])]) callback();
    },
    on(key, callback) {
      const all = listeners.get(key) ?? new Set();
      listeners.set(key, all.add(callback));
      return () => all.delete(callback);
    },
    send: () => undefined,
    onMessage: () => () => undefined,
  };
}

async function opened(value: unknown): Promise<unknown> {
  if (Array.isArray(value) && value.some(isPacked)) return Promise.all(value.map(opened));
  if (!isPacked(value)) return value;
  const text = atob(value.base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  if (!value.deflate) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

function isPacked(value: unknown): value is { base64: string; deflate?: boolean } {
  return typeof value === "object" && value !== null && typeof (value as { base64?: unknown }).base64 === "string";
}
