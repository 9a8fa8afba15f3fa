/** The query window: drawn, typed or set by Python; answered by Python, or by the boxes alone in a page without a kernel. */
import type { Box } from "./boxes";
import { throttled } from "./dom";
import type { Items } from "./items";
import { type Host, type Verdict, windowOf } from "./model";
import { countText } from "./value_text";
import { VerdictBar } from "./verdict_bar";

/** Up to this many items the browser counts at once what a window touches, before Python answers. */
const QUICK = 200_000;
const MAX_UNDO = 50;

export class QueryWindow {
  window: Box | null = null;
  readonly bar = new VerdictBar({ changed: (window) => this.set(window, true), undo: () => this.undo() });
  /** The windows before this one, the last at the end. */
  private readonly earlier: (Box | null)[] = [];
  private settled: Box | null = null;
  private drawing = false;
  private pending = false;
  private opened = false;
  private verdict: Verdict = {};
  private readonly send = throttled(120, (window: Box | null) => this.host.set("window", window));

  constructor(
    private readonly host: Host,
    private readonly items: () => Items,
    private readonly changed: (marks: boolean) => void,
    signal: AbortSignal,
  ) {
    signal.addEventListener("abort", () => this.send.cancel());
  }

  /** A new window from the pointer or the field; `done` when the drag has ended. */
  set(window: Box | null, done: boolean): void {
    this.window = window;
    this.pending = this.waits();
    if (done) {
      this.remember(window);
      this.send.cancel();
      this.host.set("window", window);
    } else {
      this.send(window);
    }
    this.answer();
  }

  /** Whether the tool that draws windows is the one in use. */
  setTool(drawing: boolean): void {
    this.drawing = drawing;
    this.bar.setActive(drawing, this.earlier.length > 0);
  }

  private remember(window: Box | null): void {
    if (String(window) === String(this.settled)) return;
    this.earlier.push(this.settled);
    if (this.earlier.length > MAX_UNDO) this.earlier.shift();
    this.settled = window;
    this.bar.setActive(this.drawing, true);
  }

  private undo(): void {
    const window = this.earlier.pop();
    if (window === undefined) return;
    this.settled = window;
    this.set(window, true);
    this.bar.setActive(this.drawing, this.earlier.length > 0);
  }

  /** The trait has changed, from whichever side. */
  sync(): void {
    const window = windowOf(this.host.get("window"));
    if (!this.opened) {
      this.open(window);
      return;
    }
    if (String(window) === String(this.window)) return;
    this.remember(window);
    this.window = window;
    this.answer();
  }

  /** A verdict from before the map was shown, of a window or of a filter without one, stays until a window is drawn. */
  private open(window: Box | null): void {
    this.opened = true;
    this.window = this.settled = window;
    this.verdict = this.host.get("verdict");
    if (window && this.verdict.files === undefined) this.answer();
    else this.show();
  }

  syncVerdict(): void {
    this.verdict = this.host.get("verdict");
    // During a drag, the verdict of Python is still that of an earlier window.
    this.pending = this.verdict.window !== undefined && this.waits();
    this.show();
  }

  /** Whether the verdict of Python for this window is pending. */
  private waits(): boolean {
    return this.host.live && this.window !== null && String(this.host.get("verdict").window) !== String(this.window);
  }

  /** The items have changed under the window. */
  refresh(): void {
    if (this.window) this.answer();
  }

  private answer(): void {
    if (!this.host.live) this.answerAlone();
    else if (this.pending && this.window && this.items().count <= QUICK) {
      const touched = this.items().index.window(this.window).length;
      this.verdict = { text: `${countText(touched)} boxes touch the window` };
    } else {
      this.verdict = this.host.get("verdict");
    }
    this.show();
    this.changed(!this.host.live);
  }

  private answerAlone(): void {
    const items = this.items();
    if (!this.window) {
      items.loadMarks();
      this.verdict = this.host.get("verdict");
      return;
    }
    const { marks, reasons, verdict } = items.query(this.window);
    items.setMarks(marks, reasons);
    this.verdict = verdict;
  }

  private show(): void {
    this.bar.update(this.window, this.verdict, this.pending, this.host.get("noun"));
  }
}
