/** Points, upright (ISO 216). */
const formats = { A4: [595.28, 841.89], A5: [419.53, 595.28] } as const;
/** Programs round differently. */
const tolerancePoints = 5;

/**
 * Why a document cannot be attached to an order, or null where it can: pdf only, all pages A4 or all A5
 * (interface.md, Limits).
 * @param content base64
 */
export async function printableProblem(content: string): Promise<string | null> {
  const bytes = Buffer.from(content, 'base64');
  if (bytes.subarray(0, 5).toString('latin1') !== '%PDF-') return 'is no pdf document';
  // Large, and needed by few rows.
  const { PDFDocument } = await import('@cantoo/pdf-lib');
  let sizes: { width: number; height: number }[];
  try {
    const document = await PDFDocument.load(bytes, { updateMetadata: false, ignoreEncryption: true });
    sizes = document.getPages().map((page) => page.getSize());
  } catch (error) {
    // Whatever a reader of pdf documents throws at these bytes, and it may quote them.
    if (error instanceof Error) return 'is a pdf document that cannot be read';
    throw error;
  }
  const found = new Set(sizes.map(formatOf));
  if (found.size === 0) return 'is a pdf document without pages';
  if (found.has(null)) return 'has pages that are neither A4 nor A5';
  return found.size > 1 ? 'mixes pages of A4 and A5' : null;
}

function formatOf({ width, height }: { width: number; height: number }): string | null {
  const [short, long] = [Math.min(width, height), Math.max(width, height)];
  const isNear = (points: number, wanted: number) => Math.abs(points - wanted) <= tolerancePoints;
  const names = Object.keys(formats) as (keyof typeof formats)[];
  return names.find((name) => isNear(short, formats[name][0]) && isNear(long, formats[name][1])) ?? null;
}
