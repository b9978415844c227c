// What operators' commands must answer, and the rows that they must leave.
import type { NewDestination } from '../../lambdas/store/statements/add-destination.ts';
import { ReminderLife } from './reminder-life.ts';

/** Every method does what the statement of that name must do, at `now`. */
export class OperatorLife extends ReminderLife {
  addDestination(asked: NewDestination): object {
    const { destinationId: id, name, url, owner, contract, deadlineMs } = asked;
    const known = this.destinations.find((one) => one.name === name);
    if (known === undefined) {
      const { maxFailures } = this.settings;
      this.destinations.push({ id, name, url, owner, contract, deadlineMs, maxFailures, state: 'active' });
    }
    if (known === undefined || known.id === id) return { answer: 'added', name };
    const same =
      known.url === url && known.owner === owner && known.contract === contract && known.deadlineMs === deadlineMs;
    return { answer: same ? 'unchanged' : 'conflict', name, url: known.url, owner: known.owner };
  }

  exclude(token: string, id: string): void {
    const there = this.exclusions.some((one) => one.token === token || (one.id === id && one.readmittedBy === null));
    if (!there) this.exclusions.push({ id, token, readmittedBy: null });
  }

  readmit(token: string, id: string): object {
    const latest = this.exclusions.findLast((one) => one.id === id);
    const done = this.exclusions.some((one) => one.readmittedBy === token);
    if (!done && latest?.readmittedBy === null) latest.readmittedBy = token;
    return { answer: done || latest?.readmittedBy === token ? 'readmitted' : 'not_excluded' };
  }
}
