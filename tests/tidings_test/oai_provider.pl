# An answer of a provider, made by Debian's libhttp-oai-perl. Of the standard input each
# line is a record: number, datestamp, URL (empty: it is deleted), title. The arguments are
# the parameters of the request, "name=value".
use strict;
use warnings;
use HTTP::OAI;
use HTTP::OAI::Metadata::OAI_DC;
use HTTP::OAI::Repository qw(:validate);

my %asked = map { split /=/, $_, 2 } @ARGV;
my $verb = $asked{verb} // '';
my @errors = validate_request(%asked);
my $answer = HTTP::OAI::Response->new(requestURL => 'http://127.0.0.1/oai');
my $part;
my ($from, $begin) = (($asked{resumptionToken} // ($asked{from} // '') . '!0') =~ /(.*)!(\d+)/);

if (@errors) {
    $answer->errors(@errors);
} elsif ($verb eq 'Identify') {
    $part = HTTP::OAI::Identify->new(
        baseURL => 'http://127.0.0.1/oai', repositoryName => 'Test', protocolVersion => '2.0',
        adminEmail => 'a@example.org', earliestDatestamp => '2000-01-01T00:00:00Z',
        deletedRecord => 'persistent', granularity => 'YYYY-MM-DDThh:mm:ssZ');
} else {
    my @lines = sort { $a->[1] cmp $b->[1] } map { chomp; [split /\t/, $_, 4] } <STDIN>;
    my @found = grep { $_->[1] ge $from } @lines;
    my $is_full = $verb eq 'ListRecords';
    $part = "HTTP::OAI::$verb"->new;
    for my $r (grep { defined } @found[$begin .. $begin + 2]) {
        my ($n, $stamp, $url, $title) = @$r;
        my $header = HTTP::OAI::Header->new(
            identifier => "oai:p.example:$n", datestamp => $stamp,
            $url ? () : (status => 'deleted'));
        my $metadata = HTTP::OAI::Metadata::OAI_DC->new(
            dc => { identifier => [$url], title => [$title] });
        $part->record(HTTP::OAI::Record->new(
            header => $header, $url ? (metadata => $metadata) : ())) if $is_full;
        $part->identifier($header) if !$is_full;
    }
    $answer->errors(HTTP::OAI::Error->new(code => 'noRecordsMatch')) if !@found;
    my $end = $begin + 3;
    $part->resumptionToken(HTTP::OAI::ResumptionToken->new(
        resumptionToken => $end < @found ? "$from!$end" : '',
        completeListSize => scalar @found, cursor => $begin)) if $end < @found || $begin;
}
$answer->content($part) if $part && !$answer->errors;
binmode STDOUT, ':utf8';
print $answer->toString;
