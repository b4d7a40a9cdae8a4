// Package controller decides what becomes of the cluster's metadata: it checks a wish against the image, turns it into
// records, appends them to __cluster_metadata-0, replays them, has the node's replicas follow, and only then shows the new image.
// Alone, a node appends and commits at once; a raft core takes that place in a cluster.
//
//	I1  every topic, config and producer-id block is a metadata record before it is anything else
//	I2  one wish is one batch (or one metadata transaction): it is there after a crash wholly or not at all
//	I3  a record is fsynced before its image is shown
//	I4  decisions read one image and no clock but the time handed in
//	I5  records are written at the version that Kafka 4.3.1 would choose at the finalized metadata.version
package controller
