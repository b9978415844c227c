// Defects to plant: each a change of a statement's text, and the promise that a run with it must be seen to break.
import type { Plant } from './run.ts';

export interface PlantedDefect {
  readonly name: string;
  readonly breaks: string;
  readonly plant: Plant;
}

/** @throws {Error} when the statement has not the text any more: a defect that is not planted would never be found */
function change(statement: string, from: string, to: string): Plant {
  return (name, text) => {
    if (name !== statement) return text;
    if (!text.includes(from))
      throw new Error(`${statement} has no ${JSON.stringify(from)}: plant the defect elsewhere`);
    return text.replaceAll(from, to);
  };
}

function both(...plants: readonly Plant[]): Plant {
  return (name, text) => plants.reduce((changed, plant) => plant(name, changed), text);
}

export const plantedDefects: readonly PlantedDefect[] = [
  {
    name: 'the mark has no fence: a late enqueue marks what another claim holds',
    breaks: 'P6',
    plant: change('enqueue', ' AND r.lease_owner = CAST(:claim_token AS uuid)', ''),
  },
  {
    name: 'recover looks at no lease, and open does not put the wake off until its lease passes',
    breaks: 'P6',
    plant: both(
      change('claim', "CASE WHEN c.lease_until <= now() THEN 'recover' END", "'recover'"),
      change(
        'open',
        'GREATEST(r.wake_at, now() + make_interval(secs => CAST(:lease_seconds AS double precision)))',
        'r.wake_at',
      ),
    ),
  },
  {
    name: 'open looks at no due time',
    breaks: 'P10',
    plant: change('open', "WHEN l.next_attempt_at > now() THEN 'not_due'", ''),
  },
];
