// Served behind uPlot's own file, as one (web/page-files.ts): it is declared there.
export default uPlot;
