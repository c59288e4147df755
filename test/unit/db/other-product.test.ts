import { expect, test } from 'vitest';
import { findOtherProduct } from '../../../src/db/schema-fit.ts';

test.each([
  ['CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, built 2023/09/27)', 'CockroachDB'],
  ['PostgreSQL 11.2-YB-2.20.1.3-b0 on x86_64-pc-linux-gnu', 'YugabyteDB'],
  ['PostgreSQL 15.12-YB-2025.1.0.1-b0 on aarch64-unknown-linux-gnu', 'YugabyteDB'],
  ['PostgreSQL 17.5 (Debian 17.5-1) on x86_64-pc-linux-gnu', null],
  ['PostgreSQL 16.6 on aarch64-unknown-linux-gnu, compiled by gcc, 64-bit', null],
])('%s: %s', (version, product) => {
  expect(findOtherProduct(version)).toBe(product);
});
