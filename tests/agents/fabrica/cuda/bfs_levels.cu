// A host variable, set by a kernel through a copy, ends the host's loop.
__global__ void init(int* dist, int n) { int i = threadIdx.x; if (i < n) dist[i] = i == 0 ? 0 : -1; }
__global__ void expand(const int* adj, int* dist, int* changed, int level, int n) {
  int v = threadIdx.x;
  if (v < n && dist[v] == level)
    for (int w = 0; w < n; ++w) if (adj[v * n + w] && dist[w] < 0) { dist[w] = level + 1; *changed = 1; }
}
extern "C" void bfs_levels(const int* adj, int* dist, int n) {
  int *d_changed, changed = 1, level = 0;
  cudaMalloc(&d_changed, sizeof(int));
  init<<<1, 32>>>(dist, n);
  while (changed) {
    changed = 0;
    cudaMemcpy(d_changed, &changed, sizeof(int), cudaMemcpyHostToDevice);
    expand<<<1, 32>>>(adj, dist, d_changed, level++, n);
    cudaMemcpy(&changed, d_changed, sizeof(int), cudaMemcpyDeviceToHost);
  }
  cudaFree(d_changed);
}
