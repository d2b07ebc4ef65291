#!/usr/bin/perl
# A WebSub subscriber, to look at what a hub does: it confirms every verification
# of intent and prints every delivery. (A real one confirms only what it has
# asked for, and has a callback that nobody can guess.)
#
#   perl doc/callback.pl              listens, and says where
#   perl doc/callback.pl 'COMMAND'    listens, runs COMMAND, which finds the address
#                                     in $CALLBACK, and ends after one delivery
#
# PORT=8790 before it chooses the port. Needs nothing beside perl-base.
use strict;
use warnings;
use IO::Socket::INET;

my $server = IO::Socket::INET->new(
    LocalAddr => '127.0.0.1',
    LocalPort => $ENV{PORT} || 0,
    Listen    => 16,
    ReuseAddr => 1,
) or die "cannot listen: $@\n";

$| = 1;
$ENV{CALLBACK} = 'http://127.0.0.1:' . $server->sockport . '/cb';
print "$ENV{CALLBACK}\n";
if (@ARGV) {
    alarm 60;    # ended by then, whatever happens
    system($ARGV[0]) == 0 or die "the command failed\n";
}

while (my $client = $server->accept) {
    local $/ = "\r\n";
    my $request = <$client> // next;
    my ($body, %header) = ('');

    while (my $line = <$client>) {
        last if $line eq "\r\n";
        chomp $line;
        my ($name, $value) = split /:\s*/, $line, 2;
        $header{lc $name} = $value;
    }
    read $client, $body, $header{'content-length'} // 0;

    if ($request =~ /[?&]hub\.challenge=([^&\s]+)/) {
        print "verification: ", (split ' ', $request)[1], "\n";
        print $client "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ",
            length $1, "\r\nConnection: close\r\n\r\n$1";
        next;
    }
    print $client "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    print "delivery:\n";
    print "  $_: $header{$_}\n" for sort keys %header;
    print "$body\n";
    last if @ARGV and $request =~ /^POST/;
}
