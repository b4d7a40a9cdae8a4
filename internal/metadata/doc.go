// Package metadata is the cluster as an immutable image, and the replay of metadata records into the next one.
//
//	I1  an Image never changes: replay returns the next one, sharing what is the same (copy-on-write trees)
//	I2  the same records give the same image, whoever replays them and however they are cut into batches
//	I3  records between BeginTransaction and EndTransaction show only once the End is replayed; Abort drops them
//	I4  an image written as a snapshot and replayed is equal to itself
//
// No disk, clock or socket is known here, and no policy: what may be written is the controller's decision.
package metadata
