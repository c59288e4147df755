import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { CallExpression, Node, TaggedTemplateExpression } from 'typescript/unstable/ast';
import {
  isCallExpression,
  isNoSubstitutionTemplateLiteral,
  isPropertyAccessExpression,
  isTaggedTemplateExpression,
} from 'typescript/unstable/ast/is';
import { API, type Project, type Type } from 'typescript/unstable/sync';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/** The type of a result column in TypeScript. */
export type ColumnKind = 'array' | 'boolean' | 'date' | 'number' | 'object' | 'string';

/** An SQL template that is executed. */
export interface SqlTemplate {
  /** File and line. */
  readonly place: string;
  /** The texts between the values. */
  readonly parts: readonly string[];
  /** Kinds of each result column by name. */
  readonly columns: ReadonlyMap<string, ReadonlySet<ColumnKind>>;
}

/**
 * Finds the SQL templates of `src/db` and of the folders `sql` that are executed and state a type of
 * their result, with this type as TypeScript sees it.
 */
export function findTemplates(): SqlTemplate[] {
  const api = new API({ cwd: root });
  try {
    const [project] = api.updateSnapshot({ openProjects: [`${root}tsconfig.json`] }).getProjects();
    if (project === undefined) throw new Error('tsconfig.json has no project');
    const files = readdirSync(`${root}src`, { recursive: true, encoding: 'utf8' }).filter((file) =>
      /^db\/[^/]+\.ts$|\/sql\/[^/]+\.ts$/.test(file),
    );
    return files.flatMap((file) => findTemplatesIn(project, `src/${file}`));
  } finally {
    api.close();
  }
}

function findTemplatesIn(project: Project, file: string): SqlTemplate[] {
  const source = project.program.getSourceFile(`${root}${file}`);
  if (source === undefined) throw new Error(`${file} is in no project`);
  const found: SqlTemplate[] = [];
  const visit = (node: Node): void => {
    const template = isCallExpression(node) ? findExecutedTemplate(node) : null;
    const columns = template === null ? null : readColumns(project, template);
    if (template !== null && columns !== null) {
      const line = source.text.slice(0, template.getStart(source)).split('\n').length;
      found.push({ place: `${file}:${line}`, parts: readParts(template), columns });
    }
    node.forEachChild(visit);
  };
  visit(source);
  return found;
}

/** Returns the template of a call `sql…``.execute(…)`; null for other calls. */
function findExecutedTemplate({ expression }: CallExpression): TaggedTemplateExpression | null {
  if (!isPropertyAccessExpression(expression) || expression.name.text !== 'execute') return null;
  return isTaggedTemplateExpression(expression.expression) ? expression.expression : null;
}

function readParts({ template }: TaggedTemplateExpression): string[] {
  if (isNoSubstitutionTemplateLiteral(template)) return [template.text];
  return [template.head.text, ...template.templateSpans.map(({ literal }) => literal.text)];
}

function readColumns(
  { checker }: Project,
  { typeArguments }: TaggedTemplateExpression,
): SqlTemplate['columns'] | null {
  const [argument] = typeArguments ?? [];
  const type = argument === undefined ? undefined : checker.getTypeFromTypeNode(argument);
  if (type === undefined) return null;
  const toColumnKind = (part: Type): ColumnKind | null => {
    const text = checker.typeToString(part);
    if (text === 'null' || text === 'undefined') return null;
    if (text === 'string' || text.startsWith('"')) return 'string';
    if (text === 'number' || /^-?\d/.test(text)) return 'number';
    if (['boolean', 'true', 'false'].includes(text)) return 'boolean';
    if (text === 'Date') return 'date';
    return checker.isArrayLikeType(part) ? 'array' : 'object';
  };
  return new Map(
    checker.getPropertiesOfType(type).map((property) => {
      const type = checker.getTypeOfSymbol(property);
      const parts = type === undefined ? [] : type.isUnionType() ? type.getTypes() : [type];
      return [property.name, new Set(parts.map(toColumnKind).filter((kind) => kind !== null))];
    }),
  );
}
