package group

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quire-log/quire/internal/kmeta"
)

// The codes that groups answer with.
var (
	codeUnknownTopic         = kerr.UnknownTopicOrPartition.Code
	codeMetadataTooLarge     = kerr.OffsetMetadataTooLarge.Code
	codeNotCoordinator       = kerr.NotCoordinator.Code
	codeIllegalGeneration    = kerr.IllegalGeneration.Code
	codeInconsistentProtocol = kerr.InconsistentGroupProtocol.Code
	codeInvalidGroup         = kerr.InvalidGroupID.Code
	codeUnknownMember        = kerr.UnknownMemberID.Code
	codeInvalidSession       = kerr.InvalidSessionTimeout.Code
	codeRebalance            = kerr.RebalanceInProgress.Code
	codeUnsupportedVersion   = kerr.UnsupportedVersion.Code
	codeInvalidRequest       = kerr.InvalidRequest.Code
	codeNonEmpty             = kerr.NonEmptyGroup.Code
	codeNoGroup              = kerr.GroupIDNotFound.Code
	codeMemberIDRequired     = kerr.MemberIDRequired.Code
	codeGroupFull            = kerr.GroupMaxSizeReached.Code
	codeFencedInstance       = kerr.FencedInstanceID.Code
	codeSubscribed           = kerr.GroupSubscribedToTopic.Code
	codeUnstable             = kerr.UnstableOffsetCommit.Code
	codeUnknownTopicID       = kerr.UnknownTopicID.Code
	codeFencedEpoch          = kerr.FencedMemberEpoch.Code
	codeUnreleasedInstance   = kerr.UnreleasedInstanceID.Code
	codeUnsupportedAssignor  = kerr.UnsupportedAssignor.Code
	codeStaleEpoch           = kerr.StaleMemberEpoch.Code
	codeInvalidRegex         = kerr.InvalidRegularExpression.Code
)

// codeOf is the code for what went wrong with an append.
func codeOf(err error) int16 {
	if err == nil {
		return 0
	}
	var k *kerr.Error
	if errors.As(err, &k) {
		return k.Code
	}
	return kerr.UnknownServerError.Code
}

// maxName bounds what goes into keys and non-flexible records, with room for what the coordinator adds to make an id of a name.
const maxName = kmeta.MaxPlainString - len("-00000000-0000-0000-0000-000000000000")
