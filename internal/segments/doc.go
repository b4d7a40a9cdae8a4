// Package segments is what logs that are runs of files have in common, whatever is in the files:
//
//	List        the segments as readers see them: they never lock, and deletes never wait for them
//	File        a segment's descriptor, open while somebody holds it and a while longer
//	SyncGroup   those who wait for an fsync share it
//	Background  the goroutines of a log, each with an end that is waited for
//
// What keeps true:
//
//	I1  a list that was loaded never changes
//	I2  a file is closed by its last holder, or while nobody holds it; its name may be gone long before
//	I3  SyncGroup.Do returns after a sync that began after it was called
//	I4  Background.Stop returns once no goroutine is left
package segments
