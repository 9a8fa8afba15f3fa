/** What is done with the whole map: full screen, a picture, and going to a place. */

/** The coordinates that somebody has typed, longitude first as in a window, or why they are none. */
export function typedPlace(text: string): { longitude: number; latitude: number } | string {
  const words = text.split(/[\s,;]+/).filter(Boolean);
  const [longitude, latitude] = words.map(Number);
  if (words.length !== 2 || !Number.isFinite(longitude) || !Number.isFinite(latitude)) return "Write longitude, latitude: such as 13.4, 52.5";
  if (Math.abs(latitude) > 90) return "The latitude is beyond 90 degrees: write longitude, latitude";
  return { longitude, latitude };
}

export function toggleFullScreen(root: HTMLElement): void {
  const owner = root.getRootNode() as Document | ShadowRoot;
  void (owner.fullscreenElement === root ? document.exitFullscreen() : root.requestFullscreen());
}

/** Saves what is drawn as a PNG; tiles are of another server, and a page may not copy those. */
export function savePicture(frame: HTMLElement, name: string): void {
  const layers = [...frame.querySelectorAll<HTMLCanvasElement>("canvas.glm-canvas")];
  const picture = document.createElement("canvas");
  [picture.width, picture.height] = [layers[0]?.width ?? 1, layers[0]?.height ?? 1];
  const context = picture.getContext("2d");
  if (!context) throw new Error("the browser gives no 2-D canvas");
  context.fillStyle = getComputedStyle(frame).backgroundColor;
  context.fillRect(0, 0, picture.width, picture.height);
  for (const layer of layers) context.drawImage(layer, 0, 0);
  picture.toBlob((blob) => {
    if (!blob) return;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${name.replace(/[^\w.-]+/g, "-") || "map"}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }, "image/png");
}
