'use strict';
// The page is complete without this script. It adds the filter, and on the page of a dashboard it replaces the parts
// that its server sends. The server has escaped all text in them.
(() => {
  const byID = id => document.getElementById(id);
  const rows = new Map();
  for (const row of document.querySelectorAll('tr[data-key]')) rows.set(row.dataset.key, row);

  const box = byID('filter-text');
  byID('filter').hidden = false;
  const filter = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(word => word);
    let shown = 0;
    for (const row of rows.values()) {
      const says = row.textContent.toLowerCase();
      row.hidden = !words.every(word => says.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    for (const group of document.querySelectorAll('.group')) {
      const all = group.querySelectorAll('tr[data-key]');
      group.hidden = !all.length || words.length > 0 && ![...all].some(row => !row.hidden);
    }
    byID('filter-count').textContent = words.length ? shown + ' of ' + rows.size + ' resources' : '';
  };
  box.addEventListener('input', filter);

  const events = document.body.dataset.events;
  if (!events) return;

  // What a user has opened and focused stays so when the part around it is replaced.
  const keeping = (part, change) => {
    const open = [...part.querySelectorAll('details')].map(d => d.open);
    const at = [...part.querySelectorAll('summary, a, [tabindex]')].indexOf(document.activeElement);
    const next = change();
    next.querySelectorAll('details').forEach((d, i) => { d.open = !!open[i]; });
    if (at >= 0) next.querySelectorAll('summary, a, [tabindex]')[at]?.focus();
  };
  const parsed = html => {
    const template = document.createElement('template');
    template.innerHTML = html;
    return template.content;
  };
  const apply = parts => {
    for (const [id, html] of Object.entries(parts.fixed || {})) {
      const part = byID(id);
      if (part) keeping(part, () => { part.replaceChildren(parsed(html)); return part; });
    }
    for (const [key, html] of Object.entries(parts.rows || {})) {
      const row = parsed(html).firstElementChild, old = rows.get(key);
      rows.set(key, row);
      if (old) keeping(old, () => { old.replaceWith(row); return row; });
    }
    if (parts.groups) {
      const kept = new Set(), focused = document.activeElement;
      for (const [id, keys] of Object.entries(parts.groups)) {
        byID('rows-' + id).replaceChildren(...keys.map(key => { kept.add(key); return rows.get(key); }));
      }
      for (const key of rows.keys()) if (!kept.has(key)) rows.delete(key);
      if (focused.isConnected && focused !== document.activeElement) focused.focus();
    }
    filter();
  };

  let source = null, again = 0;
  const say = (words, lost) => {
    byID('connection').textContent = words;
    byID('connection').classList.toggle('lost', lost);
  };
  const close = () => { clearTimeout(again); source?.close(); source = null; };
  const connect = () => {
    close();
    source = new EventSource(events);
    source.onopen = () => say('Live', false);
    source.onmessage = message => apply(JSON.parse(message.data));
    source.onerror = () => {
      say('Not connected to kube-migrator, trying again', true);
      if (source.readyState === EventSource.CLOSED) again = setTimeout(connect, 5000);
    };
  };
  // The cluster is not read for a page that no one sees.
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) return connect();
    close();
    say('Paused', false);
  });
  if (!document.hidden) connect();
})();
