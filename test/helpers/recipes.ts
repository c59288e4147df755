import { readFileSync } from 'node:fs';

const read = (name: string) => readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8');

/** A statement of the documents for an ERP team, with the heading above it. */
interface Recipe {
  readonly heading: string;
  readonly statement: string;
}

/**
 * Returns the statements of docs/erp.md that an ERP asks, and those of more-questions.sql, without
 * those that create something.
 */
export function readRecipes(): Recipe[] {
  const page = read('erp.md')
    .split(/^##+ /m)
    .flatMap((section) => {
      const [heading = ''] = section.split('\n', 1);
      return [...section.matchAll(/```sql\n((?!create ).*?)```/gs)].map(([, statement = '']) => ({
        heading,
        statement,
      }));
    });

  const file = read('programs/more-questions.sql')
    .split('\n\n')
    .slice(1)
    .flatMap((section) => {
      const [heading = ''] = section.split('\n', 1);
      const statements = section.split(/(?<=;)\n/).filter((text) => text.trim() !== '');
      return statements.map((statement) => ({ heading: heading.replace('-- ', ''), statement }));
    });

  return [...page, ...file];
}
