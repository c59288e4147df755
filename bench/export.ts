/**
 * Measures the memory and the speed of `export` for many rows: `npm run --silent bench:export -- [ROWS]`.
 */
import { once } from 'node:events';
import { printLine, readCpuMs, readResidentMb, saveResults } from './stand/measure.ts';
import { openStand } from './stand/stand.ts';

const rows = Number(process.argv[2] ?? 1_000_000);
const stand = await openStand();
try {
  await stand.query(
    `insert into fulfilment.shipments (client, id, status, shipped_on, warehouse_code, order_id, external_order_number, raw, read_no)
     select 'default', n, 'SHIPPED', now() - n * interval '1 second', 'AMS', n, 'SO-' || n,
       jsonb_build_object('type', 'shipment', 'id', n, 'attributes', jsonb_build_object('note', repeat('x', 200))), 1
     from generate_series(1, $1::int) n`,
    [rows],
  );
  for (const format of ['csv', 'ndjson']) {
    const began = performance.now();
    const child = stand.start([...stand.program, 'export', 'shipments', '--format', format], stand.env);
    const mb: number[] = [];
    let bytes = 0;
    let cpuMs = 0;
    let nextLookAt = 0;
    child.stdout?.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes < nextLookAt) return;
      nextLookAt = bytes + 10_000_000;
      mb.push(readResidentMb(child.pid));
      cpuMs = readCpuMs(child.pid);
    });
    await once(child, 'close');
    const seconds = (performance.now() - began) / 1_000;
    const quarter = Math.ceil(mb.length / 4);
    const mostMbByQuarter = [0, 1, 2, 3].map((nth) =>
      Math.round(Math.max(...mb.slice(nth * quarter, (nth + 1) * quarter))),
    );
    printLine(
      `${format}: ${rows.toLocaleString('en')} rows, ${Math.round(bytes / 1e6)} MB in ${seconds.toFixed(1)} s (${Math.round(cpuMs)} ms of CPU); most resident memory by quarter: ${mostMbByQuarter.join(', ')} MB`,
    );
    saveResults(`export-${format}`, { rows, bytes, seconds, cpuMs, mostMbByQuarter });
  }
} finally {
  await stand.stop();
}
