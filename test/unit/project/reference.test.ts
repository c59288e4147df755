import { expect, test } from 'vitest';
import { renderReference } from '../../../tools/reference-page.ts';

test('docs/reference.md has every variable, job and command, as the program has them', async () => {
  await expect(await renderReference()).toMatchFileSnapshot('../../../docs/reference.md');
});
