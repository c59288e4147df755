/** Returns a PDF in base64 whose page tree has more than 2^30 leaves, written in a few lines. */
export function makeBomb(): string {
  const levels = 30;
  const nodes = Array.from(
    { length: levels },
    (_, level) =>
      `${level + 3} 0 obj <</Type/Pages/Count 2/Kids[${level + 4} 0 R ${level + 4} 0 R]>> endobj`,
  );
  const leaf = `${levels + 3} 0 obj <</Type/Page/MediaBox[0 0 595 842]>> endobj`;
  const head =
    '%PDF-1.4\n1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj\n' +
    '2 0 obj <</Type/Pages/Count 2/Kids[3 0 R 3 0 R]>> endobj';
  return Buffer.from(
    `${head}\n${nodes.join('\n')}\n${leaf}\ntrailer <</Root 1 0 R>>\n%%EOF`,
  ).toString('base64');
}
