/** What Python suggests over the map: the repair of a table without bounds, or its newest version; a plan in between. */
import { el } from "./dom";
import type { Host } from "./model";

export class StepPanel {
  readonly element = el("div", { class: "glm-step glm-control", attributes: { role: "region", "aria-label": "Next step" } });
  private readonly text = el("div", { class: "glm-step-text", attributes: { role: "status", "aria-live": "polite" } });
  private readonly lines = el("ul", { class: "glm-step-lines" });
  private readonly command = el("code", { class: "glm-step-command" });
  private readonly buttons = el("div", { class: "glm-step-buttons" });

  constructor(private readonly host: Host) {
    this.element.append(this.text, this.lines, this.buttons, this.command);
    this.sync();
  }

  sync(): void {
    const { text = "", lines = [], actions = [], command = "", is_central: central = false, is_problem: problem = false, is_busy: busy = false } = this.host.get("step");
    this.element.hidden = !text;
    this.element.classList.toggle("glm-central", central);
    this.element.classList.toggle("glm-problem", problem);
    if (this.text.textContent !== text) this.text.textContent = text;
    this.lines.replaceChildren(...lines.map((line) => el("li", { text: line })));
    this.lines.hidden = !lines.length;
    this.command.textContent = command;
    this.command.hidden = !command;
    this.buttons.replaceChildren(
      ...actions.map(([action, label]) => {
        const button = el("button", { class: "glm-button glm-worded", text: label, attributes: { type: "button" } });
        button.disabled = busy;
        button.addEventListener("click", () => this.host.send({ type: "step", action }));
        return button;
      }),
    );
  }
}
