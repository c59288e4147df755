import { PDFDocument } from '@cantoo/pdf-lib';
import { expect, test } from 'vitest';
import { findPrintProblem } from '../../../src/push/print-problem.ts';
import { checkPrintable } from '../../../src/sandbox/rules/pdf.ts';

/** Makes a pdf with a page that differs from A4 by some points. */
async function makePdf(points: number, isEncrypted = false): Promise<Buffer> {
  const document = await PDFDocument.create();
  document.addPage([595.28 + points, 841.89 - points]);
  if (isEncrypted)
    document.encrypt({ userPassword: 'secret', ownerPassword: 'secret', permissions: {} });
  return Buffer.from(await document.save());
}

test.each([
  ['a page 4 points off', 4, false, true],
  ['a page 6 points off', 6, false, false],
  ['an encrypted document', 0, true, true],
])(
  'the worker and the sandbox judge pdf documents alike: %s',
  async (_name, points, isEncrypted, isTaken) => {
    const pdf = await makePdf(points, isEncrypted);
    const takenBySandbox = await checkPrintable(pdf.toString('base64')).then(
      () => true,
      () => false,
    );
    const takenByWorker = (await findPrintProblem(pdf.toString('base64'))) === null;
    expect({ takenBySandbox, takenByWorker }).toEqual({
      takenBySandbox: isTaken,
      takenByWorker: isTaken,
    });
  },
);
