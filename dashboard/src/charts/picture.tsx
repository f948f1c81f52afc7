// A chart that can be taken along as a PNG.
import { type ReactNode, useRef } from "react";
import { download } from "../lib/export";

/** Dots of the file for each of the screen. */
const SHARP = 2;
const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor"];

export function Picture({ name, children }: { name: string; children: ReactNode }) {
  const place = useRef<HTMLDivElement>(null);
  const save = async () => {
    const drawn = place.current?.querySelector<HTMLCanvasElement | SVGSVGElement>("canvas, svg[role]");
    if (drawn) download(`${name}.png`, "image/png", await png(drawn));
  };
  return (
    <div className="picture" ref={place}>
      <div className="drawing" tabIndex={0}>
        {children}
      </div>
      <button type="button" className="plain small" aria-label={`Save ${name} as PNG`} onClick={() => void save()}>
        PNG
      </button>
    </div>
  );
}

async function png(drawn: HTMLCanvasElement | SVGSVGElement): Promise<Blob> {
  const box = drawn.getBoundingClientRect();
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(box.width * SHARP);
  canvas.height = Math.ceil(box.height * SHARP);
  const context = canvas.getContext("2d")!;
  context.fillStyle = getComputedStyle(document.body).backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  const source = drawn instanceof SVGSVGElement ? await imageOf(drawn, box) : drawn;
  context.drawImage(source, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The picture could not be made."))), "image/png"));
}

/** The drawing by itself: the page's styles do not reach into an image, so they are written into it. */
async function imageOf(svg: SVGSVGElement, box: DOMRect): Promise<HTMLImageElement> {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const [shown, copied] = [svg, copy].map((root) => [root, ...root.querySelectorAll<SVGElement>("*")]);
  shown!.forEach((element, at) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) copied![at]!.setAttribute(name, style.getPropertyValue(name));
    copied![at]!.removeAttribute("style");
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(box.width));
  copy.setAttribute("height", String(box.height));
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  return image;
}
