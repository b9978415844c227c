// Draws a dashboard without CloudWatch: the layout is that of the template, the lines are what the functions printed.
import { Html, html, type Part } from '../../lambdas/widget/html.ts';
import { type DashboardWidget, metricsOf, type ShownMetric } from '../stack/dashboard-bodies.ts';

/** The values of a metric, by `service name`, oldest first. */
export type Series = ReadonlyMap<string, readonly number[]>;

/** What lines in CloudWatch's embedded format hold. */
export function seriesIn(log: string): Series {
  const series = new Map<string, number[]>();
  const lines = log.split('\n').flatMap((text) => (text.includes('"_aws"') ? [JSON.parse(text)] : []));
  for (const line of lines.toSorted((one, other) => one._aws.Timestamp - other._aws.Timestamp)) {
    for (const { Metrics } of line._aws.CloudWatchMetrics) {
      for (const { Name } of Metrics) {
        const values = series.get(`${line.service} ${Name}`) ?? [];
        values.push(...[line[Name]].flat());
        series.set(`${line.service} ${Name}`, values);
      }
    }
  }
  return series;
}

const cell = { width: 50, height: 40 };
const colours = ['#0972d3', '#b1361e', '#037f0c', '#8456ce', '#c33d69', '#9a6a00', '#00757a', '#545b64', '#16191f'];

/** @param widget the page of the custom widget */
export function dashboardPage(
  title: string,
  widgets: readonly DashboardWidget[],
  series: Series,
  widget: string,
): string {
  const height = Math.max(...widgets.map(({ y, height: rows }) => y + rows)) * cell.height;
  return html`<!doctype html><meta charset="utf-8"><style>
body { margin: 0; background: #f2f3f3; color: #16191f; font: 12px/1.4 system-ui, sans-serif; }
.said { padding: 8px 12px; font-style: italic; }
.board { position: relative; width: ${24 * cell.width}px; height: ${height}px; }
.widget { position: absolute; box-sizing: border-box; border: 1px solid #d5dbdb; background: #fff; overflow: hidden; padding: 6px 10px; margin: 2px; }
h2 { font-size: 13px; margin: 0 0 4px; } svg { display: block; width: 100%; height: 120px; border-bottom: 1px solid #d5dbdb; }
ul { list-style: none; margin: 4px 0 0; padding: 0; columns: 2; } .alarms { columns: 4; } i { color: #545b64; }
</style><p class="said">${title}: the widgets of the template, drawn without CloudWatch. Lines are what the functions printed on local AWS; what AWS itself would measure has no data here.</p>
<div class="board">${widgets.map(
    (one) =>
      html`<div class="widget" style="left: ${one.x * cell.width}px; top: ${one.y * cell.height}px; width: ${
        one.width * cell.width - 4
      }px; height: ${one.height * cell.height - 4}px">${content(one, series, widget)}</div>`,
  )}</div>`.toString();
}

function content(one: DashboardWidget, series: Series, widget: string): Part {
  const { title = '', markdown = '', alarms = [] } = one.properties;
  if (one.type === 'text') return markdown.split('\n').map((row) => html`<p>${row.replace(/^#+ /, '')}</p>`);
  if (one.type === 'custom') return [html`<h2>${title}</h2>`, new Html(widget)];
  if (one.type === 'alarm') {
    const names = alarms.map((arn) => arn.replace(/^.*\//, '').replace('.Arn', ''));
    return html`<h2>${title}</h2><ul class="alarms">${names.map((name) => html`<li>○ ${name}</li>`)}</ul>`;
  }
  return [html`<h2>${title}</h2>`, graph(metricsOf(one), series)];
}

function graph(metrics: readonly ShownMetric[], series: Series): Html {
  const lines = metrics.map((metric, place) => ({
    ...metric,
    colour: colours[place % colours.length] ?? '',
    values:
      metric.namespace === 'ReminderLedger' ? (series.get(`${metric.dimensions.service} ${metric.name}`) ?? []) : [],
  }));
  const top = Math.max(1, ...lines.flatMap(({ values }) => values));
  const path = (values: readonly number[]) =>
    values.map((value, at) => `${(300 * at) / Math.max(1, values.length - 1)},${118 - (112 * value) / top}`).join(' ');
  return html`<svg viewBox="0 0 300 120" preserveAspectRatio="none">${lines.map(
    ({ values, colour }) =>
      html`<polyline fill="none" stroke="${colour}" stroke-width="1.5" vector-effect="non-scaling-stroke" points="${path(values)}"></polyline>`,
  )}</svg><ul>${lines.map(
    ({ label, colour, values }) =>
      html`<li><b style="color: ${colour}">—</b> ${label} ${values.length === 0 ? html`<i>no data here</i>` : null}</li>`,
  )}</ul>`;
}
