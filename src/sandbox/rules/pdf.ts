import { ruleBroken } from '../refusal.ts';

/** Width and height in points, in portrait format (ISO 216). */
const formats = { A4: [595.28, 841.89], A5: [419.53, 595.28] } as const;
/** Points by which a page may differ from its format, because programs round differently. */
const tolerancePoints = 5;
/** Loads the library when it is first needed: it is large, and most sandboxes never need it. */
const loadPdfLibrary = () => import('@cantoo/pdf-lib');

/**
 * Checks that a document is a pdf whose pages are all A4 or all A5 (docs/interface.md, 5.1 Values).
 */
export async function checkPrintable(base64: string): Promise<void> {
  const sizes = await readPageSizes(Buffer.from(base64, 'base64'));
  if (sizes.length === 0) throw ruleBroken('The content is no pdf document');

  const found = new Set(sizes.map(findFormat));
  if (found.has(undefined)) throw ruleBroken('Pages must be of format A4 or A5');
  if (found.size > 1) throw ruleBroken('Pages of A4 and A5 must not be mixed in one document');
}

/** Returns a one-page pdf with some lines of text. The same lines give the same bytes. */
export async function writePage(lines: readonly string[]): Promise<Buffer> {
  const { PDFDocument, StandardFonts } = await loadPdfLibrary();
  const document = await PDFDocument.create({ updateMetadata: false });
  const font = await document.embedFont(StandardFonts.Helvetica);
  const page = document.addPage([...formats.A5]);
  for (const [index, line] of lines.entries())
    page.drawText(line, { x: 40, y: 540 - index * 20, size: 12, font });
  return Buffer.from(await document.save());
}

interface Size {
  readonly width: number;
  readonly height: number;
}

/** Returns the sizes of the pages; none if the content is not a pdf. */
async function readPageSizes(content: Buffer): Promise<Size[]> {
  if (!content.subarray(0, 5).equals(Buffer.from('%PDF-'))) return [];
  const { PDFDocument } = await loadPdfLibrary();
  try {
    const options = { updateMetadata: false, ignoreEncryption: true };
    return (await PDFDocument.load(content, options)).getPages().map((page) => page.getSize());
  } catch (error) {
    // The library throws various errors for broken documents: none of them can be printed.
    if (error instanceof Error) return [];
    throw error;
  }
}

function findFormat({ width, height }: Size): string | undefined {
  const [short, long] = [Math.min(width, height), Math.max(width, height)];
  const fits = ([w, h]: readonly [number, number]) =>
    Math.abs(w - short) <= tolerancePoints && Math.abs(h - long) <= tolerancePoints;
  return Object.entries(formats).find(([, size]) => fits(size))?.[0];
}
