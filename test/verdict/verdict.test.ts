// The verdict on every state and evidence beside it, and what holds of each of them.
import { describe, expect, test } from 'vitest';
import { deliveryStates } from '../../lambdas/core/delivery-states.ts';
import { brokenChecks, everyCell, possibleCells } from './cells.ts';
import { goldenText } from './golden.ts';

test('is the one in verdicts.txt for every cell; after a change look at the difference, then run with -u', async () => {
  await expect(goldenText()).toMatchFileSnapshot('verdicts.txt');
});

describe('the table', () => {
  test('leaves out nothing but what a CHECK forbids', () => {
    expect(everyCell.length).toBe(10 * 3 * 5 * 3 * 3 * 3 * 2);
    expect(possibleCells.length).toBe(2052);
    expect(everyCell.filter((cell) => brokenChecks(cell).length > 0).length).toBe(everyCell.length - 2052);
    expect(new Set(possibleCells.map(({ state }) => state))).toEqual(new Set(deliveryStates));
  });
});
