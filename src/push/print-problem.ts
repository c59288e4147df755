/** Width and height of the page formats in points, upright (ISO 216). */
const formats = { A4: [595.28, 841.89], A5: [419.53, 595.28] } as const;
/** Tolerated difference in points, because programs round differently. */
const tolerancePoints = 5;

/**
 * Returns why a document cannot be attached to an order; null if it can. It must be a pdf, with all
 * pages A4 or all A5 (docs/interface.md, 5.1 Values).
 * @param content base64
 */
export async function findPrintProblem(content: string): Promise<string | null> {
  const bytes = Buffer.from(content, 'base64');
  if (bytes.subarray(0, 5).toString('latin1') !== '%PDF-') return 'is not a pdf document';
  // Imported here because the library is large and few rows need it.
  const { PDFDocument } = await import('@cantoo/pdf-lib');
  let sizes: { width: number; height: number }[];

  try {
    const document = await PDFDocument.load(bytes, {
      updateMetadata: false,
      ignoreEncryption: true,
    });
    sizes = document.getPages().map((page) => page.getSize());
  } catch (error) {
    // The error may quote the document, so its text is not used.
    if (error instanceof Error) return 'is a pdf document that cannot be read';
    throw error;
  }

  const found = new Set(sizes.map(findFormat));
  if (found.size === 0) return 'is a pdf document without pages';
  if (found.has(null)) return 'has pages that are neither A4 nor A5';

  return found.size > 1 ? 'mixes pages of A4 and A5' : null;
}

function findFormat({ width, height }: { width: number; height: number }): string | null {
  const [short, long] = [Math.min(width, height), Math.max(width, height)];
  const isNear = (points: number, wanted: number) => Math.abs(points - wanted) <= tolerancePoints;
  const names = Object.keys(formats) as (keyof typeof formats)[];
  return (
    names.find((name) => isNear(short, formats[name][0]) && isNear(long, formats[name][1])) ?? null
  );
}
