import { ruleBroken } from '../refusal.ts';

/** Points, upright (ISO 216). */
const formats = { A4: [595.28, 841.89], A5: [419.53, 595.28] } as const;
/** Large, and not needed by most who start a sandbox. */
const library = () => import('@cantoo/pdf-lib');
/** Points by which a page may differ from its format: programs round differently. */
const tolerance = 3;

/**
 * Checks a document to be printed: a pdf, all pages A4 or all A5 (interface.md, Limits).
 * @throws Refusal where it is anything else
 */
export async function checkPrintable(content: Uint8Array, pointer: string): Promise<void> {
  const sizes = await pageSizes(content);
  if (sizes === null || sizes.length === 0) throw ruleBroken('The content is no pdf document', pointer);
  const found = new Set(sizes.map(formatOf));
  if (found.has(null)) throw ruleBroken('Pages must be of format A4 or A5', pointer);
  if (found.size > 1) throw ruleBroken('Pages of A4 and A5 must not be mixed in one document', pointer);
}

/** A one-page document with a few lines of text, the same bytes for the same lines. */
export async function writePage(lines: readonly string[]): Promise<Buffer> {
  const { PDFDocument, StandardFonts } = await library();
  const document = await PDFDocument.create({ updateMetadata: false });
  const font = await document.embedFont(StandardFonts.Helvetica);
  const page = document.addPage([...formats.A5]);
  for (const [index, line] of lines.entries()) page.drawText(line, { x: 40, y: 540 - index * 20, size: 12, font });
  return Buffer.from(await document.save());
}

async function pageSizes(content: Uint8Array): Promise<{ width: number; height: number }[] | null> {
  if (!Buffer.from(content.subarray(0, 5)).equals(Buffer.from('%PDF-'))) return null;
  const { PDFDocument } = await library();
  try {
    return (await PDFDocument.load(content, { updateMetadata: false })).getPages().map((page) => page.getSize());
  } catch (error) {
    // Whatever a reader of pdf documents throws at these bytes: they are not one that can be printed.
    if (error instanceof Error) return null;
    throw error;
  }
}

function formatOf({ width, height }: { width: number; height: number }): string | null {
  const [short, long] = [Math.min(width, height), Math.max(width, height)];
  const fits = ([w, h]: readonly [number, number]) =>
    Math.abs(w - short) <= tolerance && Math.abs(h - long) <= tolerance;
  return Object.entries(formats).find(([, size]) => fits(size))?.[0] ?? null;
}
