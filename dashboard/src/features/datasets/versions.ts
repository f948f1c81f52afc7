import { api } from "../../api/client";

/** Make an earlier version of a dataset the latest again. */
export async function republish(version: string): Promise<void> {
  const { version: _, ...dataset } = await api.GET("/v1/datasets/{version}", { params: { path: { version } } });
  await api.POST("/v1/datasets", { body: dataset });
}
