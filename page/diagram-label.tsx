/** A text of a diagram. The browser cuts it where its box ends; the whole of it stays, for the title and for who listens. */
import type { JSX } from "preact";

export function DiagramLabel({
  x,
  y,
  width,
  height,
  look,
  children,
}: {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly look: "n-t" | "n-s" | "e-t";
  readonly children: string;
}): JSX.Element {
  return (
    <foreignObject x={x} y={y} width={width} height={height}>
      <div class={`d-l ${look}`} style={{ lineHeight: `${height}px` }} title={children}>
        {children}
      </div>
    </foreignObject>
  );
}
