const clause =
  /\b(delete from|insert into|update|select|(left |inner |cross )?join|from|where|order by|group by|having|limit|returning|on conflict|set|values|union all|for (no key )?update|using)\b/g;

/**
 * Returns the lines of an SQL statement that hold more than one clause. Statements of one line are
 * accepted, and so are conditions and subqueries in parentheses. The bodies of a WITH are checked.
 */
export function findCrowdedLines(statement: string): string[] {
  if (!statement.includes('\n')) return [];
  return removeParentheses(statement)
    .replaceAll(/'[^'\n]*'/g, "''")
    .replaceAll(/--.*/g, '')
    .replaceAll(/\bdistinct from\b|\bselect from\b|\bdo update( set)?\b/g, 'x')
    .split('\n')
    .filter((line) => (line.match(clause) ?? []).length > 1)
    .map((line) => line.trim());
}

function removeParentheses(statement: string): string {
  const open: boolean[] = [];
  let kept = '';
  for (const character of statement) {
    if (character === ')') open.pop();
    if (!open.includes(false) || character === '\n') kept += character;
    if (character === '(') open.push(/\bas( not)?( materialized)? \($/.test(kept));
  }
  return kept;
}
