// The mutants: the product with one condition dropped, derived from the text of its writing statements and its migrations.
import { readdirSync } from 'node:fs';
import { parsePlPgSQLSync, parseSync } from 'libpg-query';
import { statementModules, statementOf } from '../ledger/statement-modules.ts';
import { type Cut, cutsOf, isWriting, numbered } from './cuts.ts';
import { type Mutant, onlyPlace, read, repository } from './mutant.ts';
import { writtenMutants } from './written-mutants.ts';

/** A subject and the text of it that is cut, with the text's place in its file. */
interface Source {
  readonly subject: string;
  readonly file: string;
  readonly text: string;
  readonly offset: number;
}

/** All mutants, by name. @throws {Error} when a text cannot be found in its file, or read */
export async function allMutants(): Promise<Mutant[]> {
  const statements = (await writingStatements()).flatMap(mutantsOf);
  return [...statements, ...migrationMutants(), ...writtenMutants()];
}

/** The statements that insert, update or delete, as they stand in their files. */
export async function writingStatements(): Promise<Source[]> {
  const sources: Source[] = [];
  for (const subject of statementModules) {
    const { text } = await statementOf(subject);
    const file = `lambdas/store/statements/${subject}.ts`;
    if (isWriting(text)) sources.push({ subject, file, text, offset: onlyPlace(read(file), text, file) });
  }
  return sources;
}

/** A mutant's statement with its change, as PREPARE wants it. */
export async function preparable({ subject, file, from, to, instead }: Mutant): Promise<string> {
  const { text } = await statementOf(subject);
  const offset = onlyPlace(read(file), text, file);
  return numbered(text.slice(0, from - offset) + instead + text.slice(to - offset));
}

/** One mutant for each condition of a text. */
export function mutantsOf(source: Source): Mutant[] {
  return named(source, cutsOf(source.text));
}

function named({ subject, file, offset }: Omit<Source, 'text'>, cuts: readonly Cut[]): Mutant[] {
  const times = new Map<string, number>();
  return cuts.map(({ place, condition, from, to, instead }) => {
    const short = condition.length > 90 ? `${condition.slice(0, 60)} … ${condition.slice(-25)}` : condition;
    const name = `${subject}: ${place ? `${place}: ` : ''}${short} → ${instead || 'nothing'}`;
    const time = (times.get(name) ?? 0) + 1;
    times.set(name, time);
    return {
      name: time === 1 ? name : `${name} (${time})`,
      subject,
      file,
      from: offset + from,
      to: offset + to,
      instead,
    };
  });
}

/** The rules in SQL functions, the guarding triggers whole and by condition, and every CHECK. */
function migrationMutants(): Mutant[] {
  const definitions = readdirSync(new URL('migrations/', repository))
    .sort()
    .flatMap((name) => statementsIn(`migrations/${name}`));
  // A trigger that a later migration replaces stands in no database.
  const standing = new Map(definitions.map((definition) => [triggerOf(definition) ?? definition, definition]));
  return [...standing.values()].flatMap(mutantsOfDefinition);
}

const triggerOf = ({ tree }: Definition) => tree.CreateTrigStmt?.trigname;

interface Definition {
  readonly file: string;
  readonly text: string;
  readonly offset: number;
  readonly tree: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

function statementsIn(file: string): Definition[] {
  const text = read(file);
  return (parseSync(text).stmts ?? []).map(({ stmt, stmt_location: offset = 0, stmt_len: length }) => ({
    file,
    text: text.slice(offset, length === undefined ? undefined : offset + length),
    offset,
    tree: stmt as unknown as Definition['tree'],
  }));
}

function mutantsOfDefinition(definition: Definition): Mutant[] {
  const { file, text, offset, tree } = definition;
  const { CreateFunctionStmt: sqlFunction, CreateTrigStmt: trigger, CreateStmt: table } = tree;
  if (trigger) {
    const subject = String(trigger.trigname);
    const whole = { place: '', condition: 'the trigger', from: 0, to: text.length, instead: '' };
    return named({ subject, file, offset }, [whole, ...cutsOf(text)]);
  }
  if (table) return mutantsOf({ subject: (table.relation as { relname: string }).relname, file, text, offset });
  return sqlFunction ? functionMutants(definition) : [];
}

/** A function in SQL is cut as a statement is; of one in PL/pgSQL that guards a table, the conditions of its IFs. */
function functionMutants({ file, text, offset, tree }: Definition): Mutant[] {
  const { funcname, options, returnType } = tree.CreateFunctionStmt as unknown as {
    funcname: Text[];
    options: { DefElem: { defname: string; arg: Text & { List: { items: Text[] } } } }[];
    returnType: { names: Text[] };
  };
  const option = (name: string) => options.find(({ DefElem }) => DefElem.defname === name)?.DefElem.arg;
  const subject = lastOf(funcname);
  const language = option('language')?.String.sval;
  const sql = lastOf(option('as')?.List.items ?? []);
  const bodyAt = onlyPlace(text, sql, file);
  if (language === 'sql') return mutantsOf({ subject, file, text: sql, offset: offset + bodyAt });
  if (lastOf(returnType.names) !== 'trigger') return [];
  return [...ifConditions(parsePlPgSQLSync(text))].flatMap((query) => {
    const asked = `SELECT WHERE ${query}`;
    const cuts = cutsOf(asked).map((cut) => ({ ...cut, place: cut.place.replace('where', 'if') }));
    const place = onlyPlace(text, query, file) - (asked.length - query.length);
    return named({ subject, file, offset: offset + place }, cuts);
  });
}

interface Text {
  readonly String: { readonly sval: string };
}
const lastOf = (texts: readonly Text[]) => texts.at(-1)?.String.sval ?? '';

/** The conditions of IF and ELSIF, as they are written. */
function* ifConditions(tree: unknown): Generator<string> {
  if (typeof tree !== 'object' || tree === null) return;
  for (const [key, value] of Object.entries(tree)) {
    if (key === 'cond') yield (value as { PLpgSQL_expr: { query: string } }).PLpgSQL_expr.query;
    else yield* ifConditions(value);
  }
}
